"""A wheel that has code compiled ahead of time (`make prebuilt`) is for this Python and platform; any other for all."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrebuiltHook(BuildHookInterface):  # type: ignore[misc]
    """Adds the extension and its table."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the files of the wheel are chosen."""
        folder = Path("src/kinetoscope/algorithms")
        extension = folder / f"_prebuilt{sysconfig.get_config_var('EXT_SUFFIX')}"
        if version == "standard" and (Path(self.root) / extension).is_file():
            build_data["artifacts"] += [f"/{extension}", f"/{folder}/_prebuilt.json"]
            build_data["pure_python"], build_data["infer_tag"] = False, True
