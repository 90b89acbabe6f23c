"""What steps read through two modules: `settings.inner.VALUE`."""

VALUE = 4
