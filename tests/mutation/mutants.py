"""Small faults, planted one at a time: each node of a module's syntax tree that could have been written otherwise.

Texts for people are left alone (what is raised, logged, answered as invalid, what documents): tests hold their key
words, and any wording would do. So are annotations, what is there for them alone, and what a module exports.
"""

import ast
from collections.abc import Iterator
from copy import deepcopy
from typing import Final, NamedTuple

__all__ = ["Mutant", "mutants"]

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitOr: ast.BitAnd,
}
_LOGS: Final = ("debug", "info", "warning", "error")
_TELLS: Final = ("Error", "Refused", "Invalid", "TypeVar")


class Mutant(NamedTuple):
    """One fault. `where`, `before` and `after` name it whatever line it stands on."""

    where: str
    line: int
    before: str
    after: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines; no two alike."""
    tree = ast.parse(source)
    found = []
    seen = {ast.unparse(tree)}
    for path, where, line in _places(tree):
        for changed in _changes(_at(tree, path)):
            copy = deepcopy(tree)
            before, after = _unparsed(_at(tree, path)), _unparsed(changed)
            _put(copy, path, changed)
            text = ast.unparse(ast.fix_missing_locations(copy))
            if text not in seen:
                seen.add(text)
                found.append(Mutant(where, line, before, after, text))
    return found


# A path leads from the module to a node: names of fields, and indexes in lists.
_Path = tuple[str | int, ...]


def _places(tree: ast.Module) -> Iterator[tuple[_Path, str, int]]:
    yield from _below(tree, (), "")


def _below(node: ast.AST, path: _Path, where: str) -> Iterator[tuple[_Path, str, int]]:
    for name, value in ast.iter_fields(node):
        if _is_left_alone(node, name):
            continue
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if not isinstance(child, ast.AST) or _runs_never(child):
                continue
            here = (*path, name) if index is None else (*path, name, index)
            named = f"{where}.{child.name}".strip(".") if isinstance(child, ast.FunctionDef | ast.ClassDef) else where
            if hasattr(child, "lineno"):
                yield here, named, child.lineno
            yield from _below(child, here, named)


def _is_left_alone(node: ast.AST, field: str) -> bool:
    if field in ("annotation", "returns", "decorator_list", "type_params", "ctx", "ops", "op"):
        return True
    if isinstance(node, ast.Call) and field in ("args", "keywords"):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        # A log's text is for people, too; what it counts is not.
        return any(word in name for word in _TELLS) or (name in _LOGS and field == "args")
    if isinstance(node, ast.Assign):
        return getattr(node.targets[0], "id", "") in ("__all__", "TYPE_CHECKING", "problem", "remedy")
    return isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom)


def _runs_never(node: ast.AST) -> bool:
    """A docstring, one of the texts after a constant, or what is there for annotations alone."""
    if isinstance(node, ast.If):
        return getattr(node.test, "id", "") == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        made = getattr(node.value, "func", getattr(node.value, "value", None))
        return getattr(made, "id", "") in ("TypeVar", "Literal")
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _at(tree: ast.AST, path: _Path) -> ast.AST:
    node = tree
    for step in path:
        node = node[step] if isinstance(step, int) else getattr(node, step)  # type: ignore[index]
    return node


def _put(tree: ast.AST, path: _Path, changed: ast.AST) -> None:
    parent = _at(tree, path[:-1])
    if isinstance(path[-1], int):
        parent[path[-1]] = changed  # type: ignore[index]
    else:
        setattr(parent, path[-1], changed)


def _unparsed(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(deepcopy(node))).partition("\n")[0]


def _changes(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901 - a table of cases
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARED:
            yield ast.Compare(node.left, [_COMPARED[type(op)]()], node.comparators)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
            for place in range(len(values)):
                rest = values[:place] + values[place + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(op=op) if type(op) in _COMPUTED:
            yield ast.BinOp(node.left, _COMPUTED[type(op)](), node.right)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            if value:
                yield ast.Constant(value - 1)
        case ast.Constant(value=str(value)):
            yield ast.Constant(f"{value}X")
            if value:
                yield ast.Constant("")
        case ast.Constant(value=bytes(value)):
            yield ast.Constant(value + b"X")
            if value:
                yield ast.Constant(b"")
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))
        case ast.Expr() | ast.Raise() | ast.Continue() | ast.AugAssign():
            yield ast.Pass()
        case ast.ExceptHandler(type=ast.Tuple(elts=kinds)):
            for place in range(len(kinds)):
                yield _with(node, type=ast.Tuple(kinds[:place] + kinds[place + 1 :], ast.Load()))
        case ast.Subscript(slice=ast.Slice() as part):
            for bound in ("lower", "upper"):
                if getattr(part, bound) is not None:
                    yield _with(node, slice=_with(part, **{bound: None}))
        case ast.Set(elts=items) | ast.Tuple(elts=items, ctx=ast.Load()) if len(items) > 1:
            for place in range(len(items)):
                yield _with(node, elts=items[:place] + items[place + 1 :])
        case ast.Call(keywords=keywords) if keywords:
            for place in range(len(keywords)):
                yield _with(node, keywords=keywords[:place] + keywords[place + 1 :])
        case ast.Call(func=ast.Attribute(value=value, attr="strip" | "rstrip" | "lower" | "split"), args=[]):
            yield value


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
