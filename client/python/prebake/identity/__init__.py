"""What code is: functions, classes, pipelines."""
