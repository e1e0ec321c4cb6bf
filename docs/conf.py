"""The documentation site: ``make docs`` builds it into build/docs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from hpcflow.version import __version__

project = "hpcflow"
author = copyright = "the hpcflow authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "generated"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
default_role = "code"
add_module_names = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_rtype = False
napoleon_use_ivar = True
nitpicky = False
exclude_patterns = ["_ext", "reference/names.md"]  # the tables are included by migration.md

html_theme = "furo"
html_title = f"hpcflow {release}"
html_static_path = ["_static"]
html_copy_source = False
html_show_sourcelink = False
