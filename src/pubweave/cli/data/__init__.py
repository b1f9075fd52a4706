"""Verbs on data: ``profile``, ``report`` and ``import``.

`profile` runs or follows the pipeline, `report` writes a profile as one HTML page, `import_data`
imports outside data.

Entry: the click command of each verb's module.
Not here: the Spark jobs (`pipeline`), the page and its charts (`plots.report`), reading a profile
(`model.files.profile`).
"""
