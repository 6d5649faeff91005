import inspect
import sys
import textwrap

import pytest

from skinny import models
from skinny.errors import SkinnyError


@pytest.fixture
def users(tmp_path, monkeypatch):
    """Writes the user's module into an otherwise empty current directory."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)

    def write(source, name="users_model.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source))

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("users_"):
            del sys.modules[name]


def build(name, **options):
    return models.build(name, classes=10, channels=3, **options)


@pytest.mark.parametrize("name", ["nin-cifar", "nin-mnist", "nin-digits"])
def test_our_models_by_name(name):
    model = models.build(name, classes=4, channels=2, image_size=(8, 8), width=0.1, dropout=0.0)
    assert (model.conv1.in_channels, model.cccp6.out_channels) == (2, 4)


def test_alexnet_by_name():
    assert models.build("alexnet", classes=3, channels=1).fc8.out_features == 3


def test_names_lists_them():
    assert models.names() == (
        *("nin-cifar", "nin-mnist", "nin-digits"),
        *("alexnet", "airnet", "lenet-300-100", "lenet-5"),
    )


def test_an_unknown_name_lists_what_exists():
    with pytest.raises(SkinnyError, match=r"no model 'nin'; there are nin-cifar, .*alexnet.*:func"):
        build("nin")


def test_an_unknown_option_lists_the_options():
    with pytest.raises(SkinnyError, match=r"'widht'; its options are width, batch_norm, dropout"):
        build("nin-cifar", widht=2)
    with pytest.raises(SkinnyError, match=r"'batch_norm'; its options are width, dropout, init$"):
        build("alexnet", batch_norm=True)


def test_a_users_function_in_the_current_directory(users):
    users(
        """
        from torch import nn
        def net(classes, channels, image_size, hidden=4):
            height, width = image_size
            return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, hidden),
                                 nn.Linear(hidden, classes))
        """
    )
    path = list(sys.path)
    model = build("users_model:net", image_size=(5, 7), hidden=6)
    assert [(layer.in_features, layer.out_features) for layer in model[1:]] == [(105, 6), (6, 10)]
    assert sys.path == path


def test_a_users_function_in_a_package_that_imports_its_sibling_late(users):
    users("WIDTH = 3", "users_package/sizes.py")
    users(
        """
        from torch import nn
        def net():
            from users_package.sizes import WIDTH
            return nn.Linear(WIDTH, 1)
        """,
        "users_package/nets.py",
    )
    assert build("users_package.nets:net").in_features == 3


def test_a_class_is_as_good_as_a_function(users):
    users(
        """
        from torch import nn
        class Net(nn.Linear):
            def __init__(self, classes):
                super().__init__(2, classes)
        """
    )
    assert build("users_model:Net").out_features == 10


def test_keyword_catch_alls_receive_options_only(users):
    users(
        """
        from torch import nn
        def net(**options):
            return nn.Linear(**options)
        """
    )
    model = build("users_model:net", image_size=(8, 8), in_features=2, out_features=3)
    assert (model.in_features, model.out_features) == (2, 3)


SOURCE = """
from torch import nn
number = 3
made = nn.Linear(1, 1)
def needs(classes, depth): return nn.Identity()
def raises(): raise ValueError("no such depth")
def returns(): return "a model"
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("users_missing:net", "no module 'users_missing' .* current directory .* PYTHONPATH="),
        ("users_model.sub:net", "no module 'users_model.sub'"),
        (
            "users_model:nett",
            "users_model has no 'nett'; its functions are needs, raises, returns$",
        ),
        ("users_model:number", "must be a function that returns a model, it is a int"),
        ("users_model:made", "is a model already made"),
        ("users_model:needs", "also needs 'depth'"),
        ("users_model:raises", "users_model:raises failed: ValueError: no such depth"),
        ("users_model:returns", "must return a torch.nn.Module, it returned str"),
        ("users_model:", "write package.module:function"),
        (":net", "write package.module:function"),
        ("../users_model:net", "write package.module:function"),
        ("users_model:net:net", "write package.module:function"),
    ],
)
def test_a_users_mistakes_are_clear_errors(users, name, message):
    users(SOURCE)
    with pytest.raises(SkinnyError, match=message):
        build(name)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import users_dependency", "importing users_model .*No module named 'users_dependency'"),
        ("def net(:", "importing users_model .* SyntaxError"),
        ("1 / 0", "importing users_model .* ZeroDivisionError"),
    ],
)
def test_a_module_that_does_not_import_says_why(users, source, message):
    users(source)
    with pytest.raises(SkinnyError, match=message):
        build("users_model:net")


def test_an_option_the_users_function_does_not_take(users):
    users("def net(classes, depth=2, width=3): ...")
    with pytest.raises(SkinnyError, match=r"no option 'deep'; its options are depth, width$"):
        build("users_model:net", deep=3)


def test_every_public_name_is_documented():
    for name in models.__all__:
        assert inspect.getdoc(getattr(models, name)), name
