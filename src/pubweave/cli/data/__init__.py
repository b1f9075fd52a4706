"""Verbs on data: ``profile``, ``report`` and ``import``.

`profile` runs or follows the pipeline, `profile_summary` says its result in words; `report` writes
a profile as one HTML page with the charts of `report_charts`; `import_data` imports outside data.

Entry: the click command of each verb's module.
Not here: the Spark jobs (`pipeline`), reading a profile (`model.files.profile`).
"""
