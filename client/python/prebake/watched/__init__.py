"""Values known by what making them is seen to read: functions, and the shims' entries."""
