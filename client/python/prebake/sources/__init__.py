"""What item i of a data set is, and how it is loaded."""
