"""Small templates, one for each thing a chat template can say. Rendered with VARS."""

VARS = {
    "s": "Hello World", "e": "", "u": "Grüße ß ǅ ΑΣ ﬁ 👍é", "w": " \t a b\u00a0\u3000\n", "lines": "a\nb\r\nc\rd\u2028e\x0bf\n", "csv": "a,b,,c", "html": "<a href='x'>&\"</a>",
    "i": 7, "neg": -7, "zero": 0, "big": 12345678901234567890, "f": 2.5, "g": 1e16, "h": 0.1, "t": True, "n": None,
    "l": [3, 1, 2], "ls": ["b", "A", "a", "C"], "mixed": [1, "a", None, 2.0, True, [1], {"k": "v"}], "el": [],
    "d": {"b": 1, "a": 2, "items": 3, "_p": 4, "C": None}, "ed": {}, "nested": {"x": {"y": [10, {"z": "deep"}]}},
    "users": [{"name": "ann", "age": 30, "o": {"c": "X"}}, {"name": "Bob", "age": 25, "o": {"c": "y"}}, {"name": "cid", "age": 30, "tags": ["p", "q"]}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}, {"v": 5, "kids": []}],
}

EXPRESSIONS = r"""
1 + 2 * 3 - 4 / 2
7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3, 7.5 // 2, -7.5 % 2, 2 ** 10, 2 ** -1, 2 ** 3 ** 2, -2 ** 2, (-2) ** 2, 0 ** 0, 4 ** 0.5
1 / 3, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 0.1 + 0.2, 1.0, -0.0, 100.0, 5e-324, 1.7976931348623157e308, 2.0 ** -44, 1e22, 1e21
1_000, 0x1F, 0b101, 0o17, 1_0.5_0, 1e5, 00
big, big == 12345678901234567890, big > 1, big < 1e30, big|string, -big, [big], big|tojson
9223372036854775807, -9223372036854775808, 9223372036854775808
9007199254740993 / 3, 9223372036854775807 / 7, -9223372036854775807 / 2, 9007199254740993 / 9007199254740992, 9223372036854775807 / 9223372036854775806, 1 / 9223372036854775807, 0 / -9223372036854775807
-43 / 163000353880142, -3230521751703130 / 8837124743316638566
big / 100
(-0.0)|filesizeformat, (-0.5)|filesizeformat, (-1e300)|filesizeformat, 1.0|filesizeformat, (-1.0)|filesizeformat, 999.9|filesizeformat, 1e300|filesizeformat
[('A <b'|e).zfill(9), ('a\tb'|e).expandtabs(4), (''|e).zfill(2), ('a'|e).center(3), ('a'|e).ljust(1)]
('{}|{!r}|{:>4}|{{}}|{x}|{:{}}'|e).format('<', '<', '&', '>', '<9', x='a'|e), ('{}'|e).format('<b>'|safe), ('{a}'|safe).format_map({'a': '<'}), ('{0[k]}'|e).format({'k': '"'})
('{:5}'|e).format('a'|e)
dict(undefd)
s|truncate(1e16), s|truncate(big), s|truncate(11.0), s|truncate(6, leeway=5.5), s|truncate(5.5, false, '...', 5.5), s|truncate(6, leeway=big), l|truncate(3.5, leeway=0)
s|truncate(6.0, leeway=1)
s|truncate(2.5)
s|truncate(9, leeway=-0.5)
namespace(undefd)
dict([undefd])
1 / 0
7 // 0
7 % 0
'a' + 1
1 + 'a'
none + 1
[1] + [2], (1,) + (2,), 'a' * 3, 3 * 'ab', [1] * 2, 'x' * 0, 'x' * -1, (1, 2) * 2
[1] + (2,)
true + true, true * 3, -true, +true, not 0, not 'a', not []
1 < 2 < 3, 1 < 3 < 2, 1 == 1.0 == true, 'a' < 'b', [1, 2] < [1, 3], (1,) < (1, 0), 'Z' < 'a', 1 != 2, 2 >= 2.0, 3 <= 2
1 < 'a'
none < 1
[1] < (1,)
{'a': 1} == {'a': 1.0}, [1, [2]] == [1, [2]], (1,) == [1], none == none, undefd == undefd2, 'a' == undefd, {1: 2} != {1: 3}
1 in [1, 2], 'a' in 'abc', 'd' not in 'abc', 'b' in d, 'zz' in d, 2 in (1, 2), 3 in range(5), '' in 'a', none in [none], 1.0 in [1], undefd in [1]
1 in 'abc'
1 in 5
'a' in undefd
'a' in none
1 and 2, 0 and 2, 1 or 2, 0 or 2, '' or [] or 'x', not (1 and 0), none or none
'yes' if i > 5 else 'no', ('a' if false), 'x' if 0 else 'y' if 1 else 'z'
s[0], s[-1], s[1:3], s[::-1], s[:5], s[-5:], s[::2], s[5:1], s[100:], s[-100:3], s[3:-3:-1], s[8:2:-2], u[6], u[::-1], u[-2:]
s[100], s[-100]
l[0], l[-1], l[1:], l[::-1], l[:-1], l[5:], el[:1], l[0:3:2], (1, 2, 3)[::-1], range(10)[2:8:3]|list, l[true]
l[10] is defined, l['x'] is defined, l[1.0] is defined, d[1] is defined, d['b'], d.b, d.items is callable, d['items'], d._p, d['_p'], d.missing is defined
s[1.5]
none[0]
none.x
l[::0]
l['a':]
undefd
undefd.x
undefd['x']
undefd()
undefd + 1
undefd ~ 'x', [undefd], undefd|length, undefd|list, (undefd|string)|length, undefd is undefined
-undefd
undefd < 1
undefd[1:]
nested.x.y[1].z, nested['x']['y'][0], nested.x.y.0, nested.x['y'].1.z, nested.nope is undefined
nested.nope.deeper
i.bit_count(), neg.bit_count(), t.conjugate(), f.conjugate(), neg.conjugate(), i.as_integer_ratio(), t.as_integer_ratio(), s.encode is callable, 'y' if u.encode else 'n'
i.to_bytes is callable, f.hex is defined, f.fromhex is defined, i.from_bytes is defined, f.as_integer_ratio is callable, s.translate is defined, s.maketrans is defined
undefd|reverse|list, (undefd|reverse) is iterable
undefd|reverse * 0
s|wordwrap(4), 'well-known and well--known'|wordwrap(6), 'ab-cd'|wordwrap(2), '(1)-(a)'|wordwrap(4), 'a---b c'|wordwrap(3), 'x\u00a0 y'|wordwrap(1), '-' * 9|wordwrap(3)
'one two-three'|wordwrap(4, false), 'one two-three'|wordwrap(4, true, '|'), 'one two-three'|wordwrap(4, true, none, false), 'on-e--two!--x'|wordwrap(3, false, '|', 1)
s.foo is undefined, s.upper is callable, l.foo is undefined, i.foo is undefined, (1).real, (2.5).real, 3 .imag
d.__class__ is defined, s.__len__ is defined, d.__class__, l.append is defined
d.pop('b')
l.append(1)
d.update({})
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), u.upper(), u.lower(), u.title(), u.capitalize(), u.casefold(), u.swapcase()
'ΑΣ ΑΣΑ Σ ΑΣ. aΣ\'b'.lower(), 'ŉ ǰ ΐ'.upper(), 'ﬃ'.title(), 'İ'.lower()|length, 'ıſ'.upper()
w.strip()|tojson, w.lstrip()|tojson, w.rstrip()|tojson, 'xxaxx'.strip('x'), 'abcba'.strip('ab'), 'abc'.lstrip('ba'), 'abc'.rstrip('cb'), 'a'.strip(''), s.strip(none), 'ééaé'.strip('é')
s.strip(1)
csv.split(','), csv.split(',', 1), csv.split(',', -1), csv.split(',', 0), csv.rsplit(',', 1), csv.rsplit(','), s.split(), w.split(), ' a  b c '.split(none, 1), ' a  b c '.rsplit(none, 1), ''.split(), ''.split('x'), 'a--b--c'.split('--'), 'aaa'.split('aa'), 'aaa'.rsplit('aa'), csv.split(sep=',', maxsplit=2)
s.split('')
s.split(1)
lines.splitlines(), lines.splitlines(true), ''.splitlines(), '\n'.splitlines(), 'a\n\nb'.splitlines()
s.partition(' '), s.partition('zz'), s.rpartition('o'), s.rpartition('zz'), 'a.b.c'.rpartition('.')
s.startswith('He'), s.startswith(('x', 'He')), s.endswith('ld'), s.endswith(('a', 'b')), s.startswith('World', 6), s.startswith('o', 4, 5), s.endswith('lo', 0, 5), s.startswith(''), ''.startswith('', 1), s.endswith('', 20)
s.startswith(['He'])
s.startswith(1)
s.find('o'), s.rfind('o'), s.find('zz'), s.find('o', 5), s.find('o', -5), s.find('o', 5, 7), s.index('W'), s.count('l'), s.count(''), s.count('o', 5), u.find('👍'), s.find('', 20), s.rindex('o'), u.rfind('é')
s.index('zz')
s.replace('o', '0'), s.replace('o', '0', 1), s.replace('', '-'), s.replace('', '-', 3), s.replace('l', ''), s.replace('zz', 'y'), ''.replace('', 'x'), 'aaa'.replace('aa', 'b'), u.replace('', '|'), s.replace('o', 'x', 0)
s.replace(1, 2)
'-'.join(['a', 'b']), ''.join([]), ', '.join('abc'), 'x'.join(d), '-'.join(('a',))
'-'.join([1])
s.center(20, '*'), s.center(19, '*'), 'ab'.center(5), 'a'.center(4, '.'), s.ljust(15, '.'), s.rjust(15), s.zfill(15), '-5'.zfill(4), '+x'.zfill(5), ''.zfill(2), s.center(3)
s.center(5, 'ab')
'a\tb\tc'.expandtabs(), 'a\tb'.expandtabs(4), '\t'.expandtabs(0), 'abc'.removeprefix('ab'), 'abc'.removesuffix('bc'), 'abc'.removeprefix('x'), 'abc'.removesuffix('')
'abc'.isalpha(), 'ab1'.isalnum(), '12'.isdigit(), '²'.isdigit(), '²'.isdecimal(), '½'.isnumeric(), ' \t'.isspace(), ''.isspace(), 'Abc'.istitle(), 'A B'.istitle(), 'abc'.islower(), 'a1'.islower(), '1'.islower(), 'ABC'.isupper(), 'ǅ'.isupper(), 'ǅ'.istitle(), 'a_b'.isidentifier(), '1a'.isidentifier(), 'é'.isidentifier(), 'abc'.isascii(), 'é'.isascii(), 'a\n'.isprintable(), ''.isprintable(), '٣'.isdecimal()
'%s' % 'a', '%s %s' % (1, 'b'), '%d' % 3.7, '%5d|%-5d|%05d|%+d|% d' % (1, 2, 3, 4, 5), '%x %X %o %#x' % (255, 255, 8, 255), '%.2f %5.1f %e %g %G' % (3.14159, 2.5, 12345.678, 0.00001234, 1e20), '%c%c' % ('a', 66), '%%' % (), '%r' % 'a\'b', '%a' % 'é', '%5s|%-5s|%.2s' % ('ab', 'cd', 'efg'), '%(a)s-%(b)d' % {'a': 1, 'b': 2}, '%s' % [1, 2], '%s' % none, '%s' % true, '%i' % true, '%*d' % (5, 3), '%.*f' % (2, 1.5), '%.3d' % 7, '%08.3f' % -3.14159, '%+.1e' % 12345, '%x' % -255, '%5%'
'%s %s' % 'a'
'%s' % (1, 2)
'%d' % 'a'
'%x' % 1.5
'%z' % 1
'%' % 1
'%(a)s' % {'b': 1}
'%(a)s' % 'x'
'abc' % [], 'abc' % {}, '%s' % undefd, '%s' % (undefd,)
'{}'.format(1), '{0}{1}{0}'.format('a', 'b'), '{x}'.format(x=1), '{{}}'.format(), '{!r}'.format('a'), '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd'), '{:05d}|{:+d}|{: d}|{:,}|{:_}|{:x}|{:#X}|{:b}|{:o}|{:c}|{:n}'.format(42, 42, 42, 1234567, 1234567, 255, 255, 5, 8, 65, 12), '{:.2f}|{:10.3f}|{:e}|{:g}|{:%}|{:.1%}|{:,.2f}|{:G}'.format(3.14159, 2.5, 12345.678, 0.00001, 0.25, 0.256, 1234567.891, 1e20), '{:010,}|{:08,}|{:=+8d}'.format(1234, 123456, 5), '{:.3}|{:.3s}|{:5.1s}|'.format('abcdef', 'abcdef', 'xyz'), '{0[a]}{0[b]}'.format({'a': 1, 'b': 2}), '{0.real}'.format(5), '{:{w}}|{:{f}>{w}}'.format(1, 2, w=4, f='*'), '{!s:>4}'.format(1), '{:}'.format(none), '{}'.format([1, 'a'])
'{:.3}|{:.4}|{:.1}|{:.10}|{:.3}|{:}|{:.2}|{:.17}'.format(123.0, 123.0, 0.0, 1e10, 1e-7, 1e16, 1234567.0, 0.1), '{:05}|{:<5}|{:5}|{:^5}'.format(true, true, 3, 3.5), '{:05}|{:<05}|{:z.1f}'.format('ab', 3, -0.01), '{:#x}|{:#o}|{:#b}|{:#.3g}|{:_x}'.format(255, 8, 5, 1.0, 100000)
'{}'.format()
'{x}'.format()
'{0}{}'.format(1, 2)
'{'.format(1)
'}'.format(1)
'{:d}'.format('a')
'{:d}'.format(1.5)
'{:.2d}'.format(1)
'{:s}'.format(1)
'{:5}'.format([1])
'{:,s}'.format('a')
'{!x}'.format(1)
'{:%Y}'.format(1)
'{a.b}|{a[b]}'.format(a={'b': 1}), '{0.nope}'.format(1), '{0[9]}'.format([1]), '{a}'.format_map({'a': 1})
range(5)|list, range(2, 8, 3)|list, range(5, 0, -2)|list, range(0)|list, range(3), range(1, 9, 2), range(3)|length, range(5)[1], 2 in range(0, 10, 2), range(3) == range(0, 3, 1), (range(3)).start
range(3)[1:-3], range(10)[0:5:3], range(3)[::-1], range(9)[7:1:-2][1:], range(0, 10, 3)[5:-9], range(5)[::2][::2]|list, range(4)[2:9223372036854775807]
s[:big], s[big:], s[-big:3], s[::big], s[::-big], l[:big], l[::-big], range(9)[big:]|list, range(9)[:big]
range(9)[::big]|length
l|sort('a')
l|sort(none)
[]|sort(2.5)
l|sort(reverse=4294967296)
d|dictsort(reverse='a')
lines.splitlines('a')
lines.splitlines(none)
lines.splitlines(2)|length, l|sort(reverse=2), l|sort(true), ls|sort(-1)
(d|reverse ~ '')[:24], (d.keys()|reverse ~ '')[:24], (d.values()|reverse ~ '')[:25], (d.items()|reverse ~ '')[:25], (l|reverse ~ '')[:20], ((1, 2)|reverse ~ '')[:9], (range(3)|reverse ~ '')[:15]
range(100001)
range(1, 2, 0)
range('a')
dict(a=1, b=2), dict({'a': 1}, b=2), dict([('x', 1), ('y', 2)]), dict(), {1: 'a', 'b': [1, (2,)], none: true, 1.5: {}}, {'a': 1, 'a': 2}, {1: 'a', 1.0: 'b', true: 'c'}, dict(['ab', 'cd']), dict.fromkeys(['a', 'b'], 1), dict(d, **{'z': 26})
dict([1])
{[1]: 2}
dict(d, 1)
d.get('b'), d.get('zz'), d.get('zz', 5), d.keys(), d.values(), d.items(), d.items()|list, ed.items(), d.copy(), d.keys()|first, d|length, d.keys()|length, d|list, d.items() is iterable
d.get()
d.get('a', default=1)
d.get([1])
[1, 'a\'b', "c\"d", 'e\'"f', none, true, 1.0, (1,), (), {}, 'é\n\t\\\x7f\x00\u200b', [[]]], (1, 2), u, [u], {'k': 'v'}
'a\x41\u00e9\101\U0001F600\n\t\\\'\"\q\
b', "it's", 'say "hi"', 'a' 'b' "c"
'\d\é'
namespace(a=1).a, namespace({'b': 2}).b, namespace().zz is defined, namespace(a=1)
namespace(_x=1)
s|upper, s|lower, s|title, 'hello-world (foo) [bar] a_b\tx <y {z'|title, s|capitalize, 5|upper, none|upper, s|length, s|count, u|length, u|upper, u|title
w|trim|tojson, 'xxaxx'|trim('x'), 5|trim, s|replace('o', '0'), s|replace('o', '0', 1), 5|replace(5, 6), s|replace('l', 'L', count=2), s|center(20), s|center(21)|length, s|string, 1|string, none|string, l|string
l|join, l|join(', '), ls|join('-'), s|join('.'), d|join(','), users|join(', ', attribute='name'), [1, none, true]|join('|'), []|join, l|join(d='/')
5|join
none|join
l|first, l|last, el|first is defined, el|last is defined, s|first, s|last, d|first, d|last, range(3)|last, d.items()|last, l|reverse|list, s|reverse, (1, 2)|reverse|list, d|reverse|list, e|first is undefined, e|last is undefined
5|first
(l|map('string'))|last
l|sort, ls|sort, ls|sort(case_sensitive=true), l|sort(reverse=true), users|sort(attribute='age')|map(attribute='name')|list, users|sort(attribute='age,name')|map(attribute='name')|list, users|sort(true, attribute='name')|map(attribute='name')|join, 'hello'|sort|join, [[2, 'a'], [1, 'b']]|sort, [(1, 'b'), (1, 'a')]|sort(attribute='1'), d|sort
mixed|sort
[none, none]|sort, [undefd, undefd2]|sort, ['a', 'b']|sort(attribute='x'), [{'b': 1}, {'a': 2}]|sort(attribute='zz,yy'), ('Hello'|e).partition('l'), ('Hello'|e).split('l'), [[none, 1], [none, 0]]|sort
d|dictsort, d|dictsort(true), {'b': 1, 'A': 3, 'c': 2}|dictsort, {'b': 1, 'A': 3, 'c': 2}|dictsort(true), {'b': 1, 'A': 3, 'c': 2}|dictsort(by='value'), {'b': 1, 'A': 3, 'c': 2}|dictsort(false, 'value', true), ed|dictsort
{'a': 1}|dictsort(by='x')
l|dictsort
l|min, l|max, ls|min, ls|max(case_sensitive=true), users|min(attribute='age'), users|max(attribute='age'), el|min is defined, 'hello'|max
mixed|max
l|sum, [0.1, 0.2]|sum, users|sum(attribute='age'), l|sum(start=10), el|sum, [[1], [2]]|sum(start=[]), [true, true]|sum
['a']|sum
l|unique|list, ls|unique|list, ls|unique(true)|list, users|unique(attribute='age')|map(attribute='name')|list, [1, 1.0, true, '1']|unique|list
users|groupby('age')|list, users|groupby('age')|map('first')|list, users|groupby('o.c', default='none'), ls|groupby(0)|list
users|map(attribute='name')|list, users|map(attribute='o.c')|list, users|map(attribute='o.c', default='-')|list, ls|map('upper')|list, ['a-b']|map('replace', '-', '+')|list, l|map('string')|join, [[1, 2], [3]]|map('sum')|list, users|map(attribute='tags.0', default='?')|list, [[1], [2]]|map('first')|list
l|map|list
l|map('nofilter')|list
l|map(attribute='a', foo=1)|list
[1, 0, 2, none]|select|list, l|select('odd')|list, l|select('greaterthan', 1)|list, l|reject('odd')|list, ls|select('in', ['a', 'b'])|list, [1, 'a', none]|select('string')|list, l|select('divisibleby', 3)|list, users|selectattr('tags')|map(attribute='name')|list, users|selectattr('age', 'equalto', 30)|map(attribute='name')|list, users|selectattr('age', '>', 26)|list|length, users|rejectattr('tags', 'defined')|map(attribute='name')|list, users|selectattr('o.c', 'defined')|list|length, users|selectattr('name', 'in', ['Bob'])|first
l|select('notest')|list
users|selectattr|list
(l|select) is iterable, (l|select) is sequence, (l|select('odd'))|list|length, ((el|select) or 'empty') is string, 'gen' if el|map('upper') else 'none'
(l|select)|length
(l|select)[0] is defined
l|batch(2)|list, l|batch(2, 'x')|list, range(7)|batch(3)|list, el|batch(2)|list, range(7)|slice(3)|list, range(7)|slice(3, 'x')|list, l|slice(5)|list
l|slice(0)|list
d|items|list, undefd|items|list, (d|items|list)|length
l|items|list
none|items|list
[1, 2]|list, 'abc'|list, d|list, (1, 2)|list, range(2)|list
5|list
undefd|default('x'), none|default('x'), none|default('x', true), ''|default('x', boolean=true), 0|d(5), 0|d(5, true), s|default('x'), undefd|default, undefd.x|default('y') if undefd is defined else 'z'
'42'|int, '42.9'|int, 'abc'|int, 'abc'|int(5), '0x1f'|int(0, 16), '0b11'|int(base=2), '-7'|int, ' 8 '|int, '1_000'|int, none|int, true|int, 3.9|int, -3.9|int, '1e3'|int, ''|int, '٣'|int, '99999999999999999999'|int, [1]|int, 1e300|int, '0x1f'|int, '12'|int(0, 3), '010'|int(0, 0), 'z'|int(0, 36)
undefd|int
'1.5'|float, 'abc'|float, 'abc'|float(2.5), '1e3'|float, 'inf'|float, ' 2 '|float, none|float, 5|float, '1_0.5'|float, '.5'|float, '5.'|float, 'nan'|float, '-inf'|float, 'infinity'|float, '1__0'|float, '1e400'|float
undefd|float
2.5|round, 3.5|round, 2.675|round(2), 42.55|round(1, 'floor'), 42.51|round(1, 'ceil'), 5|round, 5|round(2), 1234|round(-2), 1250|round(-2), 1234.5|round(-2), 2.4|round(method='ceil'), -2.5|round, 0.5|round, 1.5|round, 1e300|round(2), true|round, 7|round(0, 'floor')
'a'|round
2.5|round(0, 'up')
-5|abs, 5|abs, -2.5|abs, true|abs, -big|abs
'a'|abs
1000|filesizeformat, 999|filesizeformat, 1|filesizeformat, 0|filesizeformat, 1024|filesizeformat(true), 123456789|filesizeformat, 1e30|filesizeformat, '5000'|filesizeformat, 1536|filesizeformat(binary=true)
lines|indent|tojson, 'a\nb\n\nc'|indent, 'a\nb\n\nc'|indent(2, true), 'a\nb\n\nc'|indent(2, first=false, blank=true), 'a\nb'|indent('--'), ''|indent(2, true), 'a'|indent, 'a\nb'|indent(width=3)
5|indent
s|truncate(8), s|truncate(8, true), s|truncate(5, false, '…', 0), s|truncate, s|truncate(3, true, '', 0), s|truncate(9, leeway=0), 'foo bar baz qux'|truncate(9), 'foo bar baz qux'|truncate(11, false, '...', 0)
s|truncate(2)
s|wordcount, u|wordcount, ''|wordcount, 'a-b c_d'|wordcount, 5|wordcount
'the quick brown fox jumps over'|wordwrap(10), 'aaaaaaaaaaaaaaa b'|wordwrap(5), 'aaaaaaaaaaaaaaa b'|wordwrap(5, false), 'well-known fact-finding'|wordwrap(8), 'a  b   c'|wordwrap(3), 'x\n\ny z'|wordwrap(1), 'a b c'|wordwrap(3, wrapstring='|'), '  lead and trail  '|wordwrap(6), 'co-op re-use'|wordwrap(4, break_on_hyphens=false)
html|escape, html|e, html|e|e, html|forceescape, html|e|forceescape, html|safe, (html|safe) is escaped, s is escaped, html|safe|upper, '<b>'|e ~ '<c>', ('<b>'|safe) + '<c>', '<c>' + ('<b>'|safe), '<' ~ ('<b>'|safe), ('<b>'|e) * 2, [html|safe], ('%s'|safe) % '<x>', ('{}'|safe)|length, html|striptags, ' a <!-- x --> <b>c</b>&amp; '|striptags, ('<a>'|safe)|replace('a', '<'), 5|e, none|e, ('a'|safe)|join('<'), ('<'|safe)[0] + '<'
'a b/c?d=é&'|urlencode, {'a b': 'c/d', 'e': 1}|urlencode, [('x', 'y z')]|urlencode, 5|urlencode, ''|urlencode
{'class': 'a<b', 'n': none, 'id': 5}|xmlattr, {}|xmlattr, {'a': 1}|xmlattr(false)
{'a b': 1}|xmlattr
'%s-%d'|format('a', 3), '%(x)s'|format(x=1), 'abc'|format
'%s'|format(1, x=2)
d|attr('items') is callable, d|attr('b') is defined, s|attr('upper') is callable, 5|attr('real')
nested|tojson, mixed|tojson, u|tojson, html|tojson, "a\"\\\n\t\x00\x1f\x7f/"|tojson, {'b': 1, 'a': 2}|tojson(sort_keys=true), nested|tojson(indent=2), [1, [], {}, {'a': []}]|tojson(indent=1), u|tojson(ensure_ascii=true), '👍\x7f'|tojson(true), [1, 2]|tojson(separators=(',', ':')), {'a': [1, 2]}|tojson(indent=2, separators=(';', '=')), (1, 2)|tojson, {1: 2, none: 3, true: 4, 1.5: 5}|tojson, 1e20|tojson, 1.0|tojson, [0.1, -0.0, 1e-7]|tojson, none|tojson, true|tojson, ''|tojson, {'a': 1}|tojson(indent='--'), [1]|tojson(indent=0), [[1]]|tojson(none, none), big|tojson, ('inf'|float)|tojson, ('nan'|float)|tojson, [1]|tojson(indent=true)
undefd|tojson
(l|map('string'))|tojson
range(3)|tojson
{(1,): 2}|tojson
{1: 2, 'a': 3}|tojson(sort_keys=true)
namespace()|tojson
nested|tojson(foo=1)
[1, 2, 2].count(2), [1, 2].index(2), (1, 2, 1).count(1), (1, 2).index(2), [1, 2, 1].index(1, 1), [1].copy()
[1].index(5)
i is odd, i is even, i is divisibleby(7), i is divisibleby 2, i is defined, undefd is defined, n is none, s is string, i is number, f is float, i is integer, t is integer, t is boolean, t is true, t is false, l is sequence, d is mapping, l is iterable, i is iterable, s is sequence, s is iterable, none is iterable, d is sequence, undefd is sequence, undefd is iterable, range is callable, s is lower, 'ABC' is upper, 'abc' is lower, i is sameas 7, none is sameas none, l is sameas l, i is in [7], 1 is eq 1, 1 is ne 2, 2 is gt 1, 2 is ge 2, 1 is lt 2, 1 is le 1, 'a' is equalto 'a', 1 is not odd, 'upper' is filter, 'nope' is filter, 'odd' is test, 'nope' is test, 5 is greaterthan 3, 5 is lessthan(9), f is number, 1.0 is integer, namespace is callable
'a' is odd
none is even
1 is divisibleby 0
1 is lt 'a'
i is nosuchtest
s|nosuchfilter
raise_exception('no: ' ~ s)
raise_exception(5)
raise_exception()
raise_exception(message='kw')
strftime_now('%Y-%m-%d %H:%M:%S'), strftime_now('%d %b %Y'), strftime_now('%A, %B %d, %Y %I:%M %p'), strftime_now('%a %j %U %W %w %u %V %G %y %C %e %k %l|%n%t%%|%D %F %T %R %r %c %x %X'), strftime_now('%-d %-m %-H %_d %^a %#p %-I %3d %f'), strftime_now(''), strftime_now('é %Y 年'), strftime_now('%z%Z|%s|%h|%P|%g')
strftime_now(1)
cycler('a', 'b').next(), cycler(1).current, joiner()() ~ 'x'
cycler()
(1, 2), (1,), (), 1, 2
1,
s.nope()
5()
s()
none()
range(3)()
s.upper(1)
s.split(foo=1)
s|upper(1)
s|replace('a')
s|default(1, 2, 3)
s|trim(foo=1)
i if i
1 if
1 +
(1
[1, 2
{1: 2
{1}
'abc
a b
1 2
a.
a.'b'
s|
s is
s is not
not
f(a=1, a=2)
f(a=1, 2)
f(*l, 1)
dict(*[[('a', 1)]]), dict(**{'a': 1}), '{}{}'.format(*['a', 'b']), '{x}'.format(**{'x': 1}), range(*[1, 3])|list
dict(**5)
range(*5)
$
a ! b
a ; b
{{ }}
{{ 1 }
true, True, false, False, none, None
[1, 2,], (1, 2,), {'a': 1,}, range(1,)|list
not 1 == 2, not 1 in [1], -1|abs, -s|length, 2 * 3 ~ 4 + 5, 1 ~ 2 ~ 3, 1 + 2 ~ 3, 'a' ~ 1 / 2, 10 - 2 - 3, 2 * 3 % 4, 1 - -1, - - 1, +-1
l.0, l[0].real, 'abc'.0, users.0.name, users[0]['name'].upper()[1:]
a.b.c is defined
d is mapping and d.b == 1, d is not mapping or 5, s is string == true, 1 is odd ~ 'x'
s | upper | lower | title, (s|upper).lower(), s.upper()|lower, 'a,b'.split(',')|map('upper')|join(';')
"""

STATEMENTS = [
    "{% if a %}1{% elif i %}2{% else %}3{% endif %}", "{% if false %}{% elif false %}{% endif %}x", "{% if l %}{% for x in l %}{{ x }},{% endfor %}{% endif %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}|{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}", "{% for x in l %}{{ loop }}{{ loop|length }}{% endfor %}",
    "{% for x in el %}a{% else %}b{% endfor %}", "{% for x in l %}{% else %}b{% endfor %}", "{% for x in l %}{% break %}{% else %}b{% endfor %}",
    "{% for x in l %}{% continue %}{% else %}b{% endfor %}", "{% for x in l if x > 1 %}{{ x }}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %}", "{% for x in l if x > 9 %}a{% else %}none{% endfor %}",
    "{% for x in l if loop.index > 1 %}{{ x }}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|items %}{{ k }}={{ v }}{{ loop.last }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [(1,)] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}", "{% for a, b in [5] %}{% endfor %}",
    "{% for c in s %}{{ c }}.{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in undefd %}a{% else %}e{% endfor %}", "{% for x in range(3) %}{% for y in range(x) %}{{ x }}{{ y }}{{ loop.index }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for n in tree recursive %}{{ n.v }}@{{ loop.depth }}{% if n.kids %}({{ loop(n.kids) }}){% endif %}{{ loop.last }},{% endfor %}", "{% for n in tree recursive %}{{ loop(n.kids) }}{{ n.v }}{% else %}-{% endfor %}", "{% for n in l %}{{ loop([1]) }}{% endfor %}",
    "{% for n in tree if n.v > 1 recursive %}{{ n.v }}{{ loop(n.kids) }};{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}{{ x }}", "{% break %}", "{% if 1 %}{% continue %}{% endif %}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in l %}{% set z %}a{% break %}{% endset %}{% endfor %}ok", "{% for x in l %}{% filter upper %}a{{ x }}{% if x == 1 %}{% break %}{% endif %}{% endfilter %}{% endfor %}ok", "{% for x in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    "{% for x in el %}{% else %}{% break %}{% endfor %}", "{% for y in l %}{% for x in el %}{% else %}{% break %}{% endfor %}{{ y }}{% endfor %}z", "{% for y in l %}{% for x in el recursive %}{% else %}{% break %}{% endfor %}{% endfor %}",
    "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = [3, 4] %}{{ a }}{{ b }}", "{% set a, b = 1 %}", "{% set x = 1, 2 %}{{ x }}", "{% set s = s ~ '!' %}{{ s }}", "{% set x %}a{{ i }}b{% endset %}{{ x }}{{ x|length }}",
    "{% set x | upper | replace('A', 'z') %}abc{% endset %}{{ x }}", "{% set x %}{% for y in l %}{{ y }}{% endfor %}{% endset %}[{{ x }}]", "{% set true = 1 %}", "{% set 1 = 2 %}", "{% set x.y = 1 %}", "{% set none.y = 1 %}", "{% set s.y = 1 %}",
    "{% set ns = namespace(x=0) %}{% for y in l %}{% set ns.x = ns.x + y %}{% endfor %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = ns.a ~ 'x' %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns['a'] }}{{ ns }}", "{% set ns = namespace(a=1) %}{% set ns.a, x = 5, 6 %}{{ ns.a }}{{ x }}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% set ns = namespace(s='') %}{% for x in range(30) %}{% set ns.s = ns.s + x|string + ',' %}{% endfor %}{{ ns.s }}", "{% set ns = namespace(l=[]) %}{% for x in l %}{% set ns.l = ns.l + [x * 2] %}{% endfor %}{{ ns.l }}", "{% set ns = namespace(s='a') %}{% set t = ns.s %}{% set ns.s = ns.s + 'b' %}{% set v = ns.s + 'c' %}{% set ns.s = ns.s + 'd' %}{{ t }}{{ v }}{{ ns.s }}",
    "{% set x = 1 %}{% for y in l %}{% set x = x + y %}{{ x }},{% endfor %}{{ x }}", "{% for y in l %}{% set z = y %}{% endfor %}{{ z is defined }}", "{% if 1 %}{% set z = 5 %}{% endif %}{{ z }}", "{% if 0 %}{% set s = 5 %}{% endif %}{{ s }}", "{% if 0 %}{% set zz = 5 %}{% endif %}{{ zz is defined }}",
    "{% for y in l %}{% if y == 1 %}{% set s = y %}{% endif %}{{ s }}{% endfor %}{{ s }}", "{% for y in l %}{% if loop.first %}{% set q = 1 %}{% endif %}{{ q is defined }}{% endfor %}", "{% set q = 0 %}{% for y in l %}{% if loop.first %}{% set q = 1 %}{% endif %}{{ q }}{% endfor %}{{ q }}", "{{ s }}{% set s = 'new' %}{{ s }}", "{% for s in l %}{{ s }}{% endfor %}{{ s }}", "{% for x in l %}{% for x in ls %}{{ x }}{% endfor %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{% for j in l %}{% set x = x + j %}{{ x }} {% endfor %}[{{ x }}]{% endfor %}{{ x }}", "{% for x in l %}{% set loop = 1 %}{% endfor %}", "{% for loop in l %}{% endfor %}", "{% set loop = 3 %}{{ loop }}", "{{ loop is defined }}{% for x in l %}{{ loop is defined }}{% endfor %}{{ loop is defined }}",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=6) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m(a, b) %}{% endmacro %}{% macro m2(a=1, b) %}{% endmacro %}", "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}", "{% macro m(*a) %}{% endmacro %}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% macro m() %}{{ s }}{{ caller() }}{% endmacro %}{% call m() %}body{{ i }}{% endcall %}", "{% macro m() %}[{{ caller(1, b=2) }}]{% endmacro %}{% call(a, b) m() %}{{ a }}-{{ b }}{% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% call s %}{% endcall %}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}", "{% macro m(caller=none) %}{{ caller is none }}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}",
    "{% macro m(n) %}{{ n }}{% endmacro %}{{ m }}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m is callable }}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ later() }}{% macro later() %}x{% endmacro %}", "{% if 1 %}{% macro m() %}in{% endmacro %}{% endif %}{{ m() }}", "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{% endfor %}{{ m is defined }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}", "{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }}", "{% macro m(s) %}{{ s }}{% endmacro %}{{ m(i) }}{{ s }}", "{% macro m() %}{{ undefd }}{{ undefd is defined }}{% endmacro %}{{ m() }}", "{% set ns = namespace(f=none) %}{% macro g(x) %}<{{ x }}>{% endmacro %}{% set ns.f = g %}{{ ns.f(3) }}", "{% macro outer(x) %}{% macro inner(y) %}{{ x }}{{ y }}{% endmacro %}{{ inner(1) }}{{ inner(2) }}{% endmacro %}{{ outer('o') }}", "{% macro m(x, y=[]) %}{{ y + [x] }}{% endmacro %}{{ m(1) }}{{ m(2) }}", "{% macro m(a=b, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}",
    "{% with %}x{% endwith %}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% with i = 1, j = i %}{{ i }}{{ j }}{% endwith %}", "{% with (a, b) = [1, 2] %}{{ a }}{{ b }}{% endwith %}", "{% set a = 1 %}{% with a = 2 %}{{ a }}{% set a = 3 %}{{ a }}{% endwith %}{{ a }}", "{% with a %}{% endwith %}",
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aaa{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter nope %}{% endfilter %}", "{% filter trim %}  x  {% set y = 1 %}{% endfilter %}{{ y is defined }}",
    "{% generation %}a{{ s }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}", "{% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}", "{%- generation -%} x {%- endgeneration -%}", "{% generation %}", "{% print 1, s %}", "{% print %}x",
    "{% block a %}x{{ s }}{% endblock %}", "{% set q = 1 %}{% block a %}{{ q }}{% endblock %}", "{% for x in l %}{% block b scoped %}{{ x }}{% endblock %}{% endfor %}", "{% for x in l %}{% block b %}{{ x is defined }}{% endblock b %}{% endfor %}", "{% block a %}{% endblock %}{% block a %}{% endblock %}", "{% block a %}{% set q = 2 %}{% endblock %}{{ q is defined }}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{% do x %}", "{% nope %}", "{% trans %}{% endtrans %}", "{% raw %}{{ x }}{% if %}{% endraw %}", "{%- raw -%} a {%- endraw -%} b", "{% raw %}\nx\n{% endraw %}\ny", "  {% raw %} a {% endraw %} b", "{% raw %}", "{%raw%}x{%endraw%}",
    "{# c #}a{#- d -#} b", "a {#- c #} b", "a {# c -#} b", "{# a\nb #}\nc", "  {# c #}\nx", "  {#+ c #}\nx", "{# unclosed", "{#}x", "{##}x", "{# c +#}\nx",
    "a\n{% if 1 %}\nb\n{% endif %}\nc\n", "a\n  {% if 1 %}  \nb\n\t{% endif %}\nc", "a {% if 1 %} b", "  {%- if 1 -%}  x  {%- endif -%}  y", "  {%+ if 1 %} x{% endif %}", "a\n  {{ s }}\nb", "a\n  {{- s -}}\n b", "{% if 1 +%}\nx{% endif +%}\ny", "{%- if 1 +%}\nx{%- endif %}\n\ny", "x\n\n", "x\n", "\n", "\n\n", "", "  {% set x = 1 %}  {% set y = 2 %}\n z", "a\r\nb\rc\n", "{{ 'a\r\nb' }}", "a\u00a0\n\u00a0{%- if 1 %}b{% endif %}", "\u2003{% if 1 %}\nx{% endif %}",
    "{{ s }}{{ i }}", "{{s}}", "{{ s -}} x", "{{- s }} x", "{{+ s }}", "{{ s +}}", "{% if s: %}x{% endif %}", "{% for x in l: %}{{ x }}{% endfor %}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {}}}}", "{% if {'a': 1} %}x{% endif %}", "{{ '}}' }}{{ '%}' }}", "{{ \"{{\" }}", "{% set x = '{% if %}' %}{{ x }}", "{", "{ {", "}}", "%}", "{{", "{%", "{% if", "{{ 1 }", "{% endif %}", "{% if 1 %}", "{% if 1 %}{% endfor %}", "{% for %}{% endfor %}", "{% for x %}{% endfor %}", "{% for x in %}{% endfor %}", "{% if %}{% endif %}", "{% else %}", "{% set %}", "{% set x = %}", "{% macro %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% call %}{% endcall %}", "{% with a = %}{% endwith %}", "{% for x in l %}{% endfor x %}", "{% if 1 %}{% else %}{% else %}{% endif %}", "{% if 1 %}{% else %}{% elif 1 %}{% endif %}",
    "{% if 1 %}{{ s|nofilter }}{% endif %}", "{% if 0 %}{{ s|nofilter }}{% endif %}ok", "{{ s|nofilter if 0 else 'ok' }}", "{% if 0 %}{% for x in l %}{{ x|nofilter }}{% endfor %}{% endif %}", "{% if 0 %}{{ s is notest }}{% endif %}ok", "{% macro m() %}{% if 0 %}{{ s|nofilter }}{% endif %}{% endmacro %}ok", "{% macro m() %}{{ s|nofilter }}{% endmacro %}ok",
    "{% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{% set c = cycler('a', 'b') %}{% for x in l %}{{ c.next() }}{% endfor %}{{ c.current }}{{ c.reset() }}{{ c.current }}", "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", "{% set g = l|select %}{% for x in g %}{{ x }}{% break %}{% endfor %}{{ g|list }}", "{% set v = d.items() %}{{ v|list }}{{ v|list|length }}", "{% set g = l|reverse %}{{ g|first }}{{ g|list }}",
    "{% for x in l|map('string') %}{{ x }}{{ loop.last }}{{ loop.length }}{% endfor %}", "{% for x in l|map('string') %}{{ loop.revindex }}{% endfor %}", "{% for g in users|groupby('age') %}{{ g.grouper }}:{{ g.list|length }}{{ g[0] }};{% endfor %}", "{% for age, us in users|groupby('age') %}{{ age }}{{ us|map(attribute='name')|join(',') }};{% endfor %}", "{% for row in range(7)|batch(3, '-') %}{{ row|join }};{% endfor %}",
    "{% set f = false %}{% set ns = namespace(flag=true) %}{% for x in range(5) if ns.flag %}{{ x }}{% if x == 2 %}{% set ns.flag = false %}{% endif %}{% endfor %}", "{% for a, b in [(1, 2), (3, 4)] if b > 2 %}{{ a }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}", "{% set x %}{{ s|safe }}<{% endset %}{{ x }}{{ x is escaped }}", "{% macro m() %}<b>{% endmacro %}{{ m() + '<' }}{{ m() is escaped }}", "{{ 1 if 1 }}{{ (1 if 0) is defined }}", "{{ ('a' if 0) }}{{ ('a' if 0).x }}",
    "{% if a.b is defined %}{% endif %}", "{% if s.nope is defined %}y{% else %}n{% endif %}", "{% if d.b is defined and d.b %}y{% endif %}{% if d.zz is defined and d.zz.y %}n{% endif %}", "{% set messages = [1] %}{{ messages }}", "{{ range(3)|list + [9] }}{{ [1] + l[1:] }}", "{% set self = 1 %}{{ self }}", "{% autoescape false %}{{ html }}{% set q = 1 %}{% endautoescape %}{{ q is defined }}", "{% autoescape %}{% endautoescape %}", "{% debug %}",
    "{% set x = namespace(v=1) %}{% set y = x %}{% set y.v = 2 %}{{ x.v }}{{ x == y }}{{ x is sameas y }}", "{% set a = l %}{{ a is sameas l }}{{ l == [3, 1, 2] }}", "{{ ns is defined }}{% set ns = namespace() %}{{ ns is defined }}", "{% for x in l %}{% set ns = namespace(v=x) %}{{ ns.v }}{% endfor %}", "{% for x in [namespace(a=1)] %}{% set x.a = 2 %}{{ x.a }}{% endfor %}", "{% with ns = namespace(a=1) %}{% set ns.a = 3 %}{{ ns.a }}{% endwith %}", "{% macro m(ns) %}{% set ns.a = 9 %}{% endmacro %}{% set n2 = namespace(a=1) %}{{ m(n2) }}{{ n2.a }}",
    "é{{ 'é' }}{% set naïve = 'ï' %}{{ naïve }}", "{% set 变量 = 1 %}{{ 变量 }}", "{% set a€ = 1 %}", "{{ a\u00b2 }}", "{% set _x = 1 %}{{ _x }}", "{{ _undefd }}", "{{ __class__ }}", "{{ range.__class__ }}", "{{ ''.__class__.__mro__ }}", "{{ ().__class__.__bases__ }}", "{{ s.format.__self__ }}", "{{ dict.mro }}", "{{ cycler.__init__ }}", "{{ '{0.__class__}'.format(1) }}", "{{ '{0.__class__.__mro__}'.format(1) }}", "{{ d['__class__'] }}", "{{ namespace(a=1).__class__ }}",
]


def expressions():
    """The lines above, each as a template of its own and once as a condition."""
    text, out = EXPRESSIONS.strip("\n"), []
    lines = text.replace("\\\nb'", "\\\x01b'").split("\n")
    for line in lines:
        line = line.replace("\x01", "\n")
        out.append("{{ " + line + " }}")
        out.append("{% set r = " + line + " %}{{ r }}")
    return out
