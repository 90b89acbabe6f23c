"""Which classes of well-known packages draw random numbers: a table, by package and name.

Names and base classes alone do not tell (torchvision's `AugMix` is marked by neither), so that every
class counts by its entry; what stands in no table is `unknown`. Drawing counts as random even where the
output is fixed: leaving out the draw would change what follows.
"""

from __future__ import annotations

#: Grows with each change of the tables below, which can make a verdict another.
VERSION = 2

RANDOM, DETERMINISTIC, CONTAINER, OPAQUE = "random", "deterministic", "container", "opaque"


def _all(verdict: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), verdict)


_TORCHVISION = (
    _all(
        RANDOM,
        "AugMix AutoAugment ColorJitter CutMix ElasticTransform GaussianBlur GaussianNoise JPEG MixUp "
        "RandAugment RandomAdjustSharpness RandomAffine RandomApply RandomAutocontrast "
        "RandomChannelPermutation RandomChoice RandomCrop RandomEqualize RandomErasing "
        "RandomGrayscale RandomHorizontalFlip RandomInvert RandomIoUCrop RandomOrder "
        "RandomPerspective RandomPhotometricDistort RandomPosterize RandomResize RandomResizedCrop "
        "RandomRotation RandomShortestSize RandomSizedCrop RandomSolarize RandomVerticalFlip "
        "RandomZoomOut ScaleJitter TrivialAugmentWide",
    )
    | _all(
        DETERMINISTIC,
        "CenterCrop ClampBoundingBoxes ClampKeyPoints ConvertBoundingBoxFormat ConvertImageDtype "
        "FiveCrop Grayscale Identity LinearTransformation Normalize PILToTensor Pad RGB Resize "
        "SanitizeBoundingBoxes SanitizeKeyPoints Scale SetClampingMode TenCrop ToDtype ToImage "
        "ToPILImage ToPureTensor ToTensor UniformTemporalSubsample ImageClassification "
        "ObjectDetection OpticalFlow SemanticSegmentation StereoMatching VideoClassification",
    )
    | _all(CONTAINER, "Compose")
    | _all(OPAQUE, "Lambda")
)

#: By package: classes by their bare name; "*" is what holds for all others of the package.
CLASSES: dict[str, dict[str, str]] = {
    "torchvision.transforms": _TORCHVISION,
    "torch.nn": _all(
        RANDOM,
        "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout RReLU FractionalMaxPool2d",
    )
    | _all(CONTAINER, "Sequential")
    | {"*": DETERMINISTIC},
    "torchaudio.transforms": _all(
        RANDOM, "TimeMasking FrequencyMasking SpecAugment SpeedPerturbation GriffinLim"
    )
    | {"*": DETERMINISTIC},
    "albumentations": _all(
        DETERMINISTIC,
        "AutoContrast CenterCrop Crop FromFloat HorizontalFlip InvertImg LetterBox LongestMaxSize "
        "NoOp Normalize Pad PadIfNeeded Resize SmallestMaxSize TimeReverse ToFloat ToGray ToRGB "
        "ToSepia ToTensor3D ToTensorV2 Transpose VerticalFlip",
    )
    | _all(CONTAINER, "Compose Sequential")
    | _all(OPAQUE, "Lambda")
    | {"*": RANDOM},
    "audiomentations": _all(CONTAINER, "Compose") | {"*": RANDOM},
    "torch_audiomentations": {"*": RANDOM},
    "monai.transforms": _all(CONTAINER, "Compose") | _all(OPAQUE, "Lambda Lambdad") | {"*": DETERMINISTIC},
    "kornia.augmentation": {"*": RANDOM},
    "kornia": {"*": DETERMINISTIC},
    "torchio": _all(CONTAINER, "Compose")
    | _all(OPAQUE, "Lambda")
    | _all(RANDOM, "OneOf")
    | {"*": DETERMINISTIC},
    "keras": _all(
        RANDOM,
        "Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D AlphaDropout GaussianDropout "
        "GaussianNoise ActivityRegularization RandomBrightness RandomContrast RandomCrop RandomFlip "
        "RandomHeight RandomRotation RandomTranslation RandomWidth RandomZoom RandomHue "
        "RandomSaturation RandomSharpness RandomShear RandomGrayscale RandomInvert RandomPerspective "
        "RandomPosterization RandomErasing RandomElasticTransform RandomColorDegeneration "
        "RandomColorJitter RandomGaussianBlur RandAugment AugMix AutoContrast CutMix MixUp Pipeline "
        "RandomApply RandomChoice Solarization",
    )
    | _all(
        DETERMINISTIC,
        "Rescaling Resizing CenterCrop Normalization Discretization CategoryEncoding StringLookup "
        "IntegerLookup TextVectorization Hashing HashedCrossing Equalization MelSpectrogram "
        "STFTSpectrogram MaxNumBoundingBoxes",
    ),
    "transformers": _all(
        RANDOM,
        "DataCollatorForLanguageModeling DataCollatorForWholeWordMask "
        "DataCollatorForPermutationLanguageModeling DataCollatorForSOP",
    )
    | {"*": DETERMINISTIC},
    "tokenizers": {"*": DETERMINISTIC},
    "timm.data": _all(
        RANDOM,
        "RandomResizedCropAndInterpolation RandomCropOrPad RandomPad RandAugment AutoAugment "
        "AugMixAugment AugmentOp RandomErasing Mixup FastCollateMixup RandomPatchDropout "
        "PatchRandomErasing",
    )
    | _all(DETERMINISTIC, "ToNumpy ToTensor MaybeToTensor MaybePILToTensor CenterCropOrPad TrimBorder")
    | _all(OPAQUE, "ResizeKeepRatio"),
    "imgaug": {"*": RANDOM},
    "nlpaug": {"*": RANDOM},
    "batchgenerators": {"*": RANDOM},
    "batchgeneratorsv2": {"*": RANDOM},
    "volumentations": {"*": RANDOM},
}

#: Base classes that mark all that extend them, by bare name and package.
BASES: dict[str, tuple[str, str]] = {
    "RandomizableTrait": ("monai", RANDOM),
    "Randomizable": ("monai", RANDOM),
    "RandomTransform": ("torchio", RANDOM),
    "_BasicAugmentationBase": ("kornia", RANDOM),
    "_RandomApplyTransform": ("torchvision", RANDOM),
    "_AutoAugmentBase": ("torchvision", RANDOM),
}

#: Methods that draw, and the base class that has them idle: overriding one makes a subclass random.
DRAWS: tuple[tuple[str, str, str], ...] = (
    ("torchvision", "Transform", "make_params"),
    ("torchvision", "Transform", "_get_params"),
    ("albumentations", "BasicTransform", "get_params"),
    ("albumentations", "BasicTransform", "sample_parameters"),
)

#: Packages whose unlisted classes are random if their names say so; else they are unknown.
WORDS = (
    "Random",
    "Rand",
    "Jitter",
    "AugMix",
    "AutoAugment",
    "Augment",
    "Elastic",
    "Noise",
    "Dropout",
    "Mixup",
    "MixUp",
    "CutMix",
    "Cutmix",
    "Dither",
)
