# The one place that says the version; CHANGELOG.md says what it holds.
set(HEDDLE_VERSION 0.1.0)
