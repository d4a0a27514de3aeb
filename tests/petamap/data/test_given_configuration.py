"""What is given in the place of a configuration."""

from pathlib import Path

import pytest

import petamap
from petacomm.base.errors import ConfigError


@pytest.mark.parametrize(
    "call",
    [
        lambda config: petamap.run(config),
        lambda config: petamap.run_montecarlo(config, out="never"),
        lambda config: petamap.plan(config, 8, "hopper"),
    ],
)
def test_paths_are_no_configurations(call):
    for config in ("night.toml", Path("night.toml"), {}):
        with pytest.raises(ConfigError, match="no configuration") as caught:
            call(config)
        assert "petamap.load_config(" in caught.value.mend
