"""What is released fits together: versions, dependencies, wheels, workflows, recipe."""

import re
import sys
from pathlib import Path

import pytest
import rattler_build
import yaml

import petacomm
import petamap

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# names that conda-forge has for packages of PyPI, where they differ
CONDA_NAMES = {"astropy": "astropy-base"}


# platforms and Pythons that packages of conda are made for
CONDA_PLATFORMS = ("linux-64", "linux-aarch64", "osx-64", "osx-arm64")
CONDA_PYTHONS = ("3.10", "3.13")


def recipe():
    return yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))


def test_one_version():
    version = PROJECT["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    in_recipe = recipe()["context"]["version"]
    assert {version, petamap.__version__, petacomm.__version__, citation["version"], in_recipe} == {version}


def test_authors_and_licence_are_those_of_the_citation():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert [one["name"] for one in citation["authors"]] == [
        one["name"] for one in PROJECT["project"]["authors"]
    ]
    assert citation["license"] == PROJECT["project"]["license"]
    assert recipe()["about"]["license"] == citation["license"]


def wanted_of_conda(python):
    """Return the names and bounds that the project asks for, as conda-forge names them."""
    wanted = set()
    for text in PROJECT["project"]["dependencies"]:
        name, bounds, below = re.fullmatch(r"([\w-]+)([^;]*)(?:;\s*python_version < '(.*)')?", text).groups()
        if below is None or float(python.partition(".")[2]) < float(below.partition(".")[2]):
            wanted.add(CONDA_NAMES.get(name, name) + bounds.strip())
    return wanted


@pytest.mark.parametrize("python", CONDA_PYTHONS)
@pytest.mark.parametrize("platform", CONDA_PLATFORMS)
def test_the_rendered_recipe_asks_for_what_the_project_asks_for(platform, python):
    variants = rattler_build.VariantConfig(
        {"python": [f"{python}.*"], "c_stdlib": ["libc"], "c_stdlib_version": ["1"]}
    )
    config = rattler_build.RenderConfig(rattler_build.PlatformConfig(target_platform=platform))
    parsed = rattler_build.Stage0Recipe.from_file(ROOT / "recipe" / "recipe.yaml")
    (rendered,) = parsed.render(variants, config)
    asked = rendered.recipe.to_dict()["requirements"]
    assert {text.replace(" ", "") for text in asked["run"]} - {"python"} == wanted_of_conda(python)
    assert ("libgomp" in asked["host"], "llvm-openmp" in asked["host"]) == (
        platform.startswith("linux"), platform.startswith("osx"),
    )  # fmt: skip
    assert set(PROJECT["build-system"]["requires"]) <= {text.replace(" ", "") for text in asked["host"]}


def test_the_recipe_starts_the_commands_of_the_project():
    started = dict(line.split(" = ") for line in recipe()["build"]["python"]["entry_points"])
    assert started == PROJECT["project"]["scripts"]


def test_workflows_run_on_machines_that_there_are():
    """Labels of runners that were taken out of service."""
    gone = {"ubuntu-20.04", "macos-12", "macos-13", "macos-14"}
    for path in WORKFLOWS:
        assert not gone & set(re.findall(r"(?:ubuntu|macos)-[\w.]+", path.read_text(encoding="utf-8"))), path


def test_wheels_for_each_python_that_is_named():
    named = [
        text.rpartition(" ")[2]
        for text in PROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", text)
    ]
    built = PROJECT["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{version.replace('.', '')}-*" for version in named]
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"
    stable = PROJECT["tool"]["scikit-build"]["wheel"]["py-api"]
    assert f"{stable}-*" in built


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_is_there(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    said = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    for run in said:
        assert set(re.findall(r"\bmake ([\w-]+)", run)) <= targets, run
        for script in re.findall(r"\btests/[\w/.]+", run):
            assert (ROOT / script).exists(), run


def test_lint_tests_wheels_and_docs_have_workflows():
    assert {"tests", "wheels", "docs"} <= {path.stem for path in WORKFLOWS}
    extras = PROJECT["project"]["optional-dependencies"]
    assert {"mpi", "plot", "interop", "test", "docs"} <= set(extras)
    for part in ("flac", "mapping", "pixell", "pysm", "sacc"):
        assert set(extras[part]) <= set(extras["interop"]), part
