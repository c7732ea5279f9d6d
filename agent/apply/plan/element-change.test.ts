import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Cidr, formatCidr, parseAddress, parseCidr } from '../../../lib/net/address.ts';
import { toMemberSet } from '../../../lib/net/member-set.ts';
import type { NamedSet, SetMembers } from '../../render/ruleset.ts';
import type { ElementsCommand } from './command.ts';
import { memberChange } from './element-change.ts';

/** From addresses and prefixes as text. */
function members(...texts: readonly string[]): SetMembers {
  const blocks = texts.flatMap((text) => {
    const cidr = parseCidr(text)?.cidr;
    return cidr === undefined ? [] : [{ cidr, except: [] }];
  });
  return toMemberSet(
    blocks,
    texts.filter((text) => parseAddress(text) !== null),
  ).v4;
}

function set(interval: boolean, current: SetMembers): NamedSet {
  return { name: 's', family: 4, key: 'address', interval, members: current, comment: '' };
}

function change(interval: boolean, before: readonly string[], after: readonly string[]) {
  const { more, less } = memberChange(set(interval, members(...before)), set(interval, members(...after)));
  return { more: more.map(text), less: less.map(text) };
}

const SIGNS = { addElements: '+', deleteElements: '-', flushElements: '*' } as const;

function text({ kind, keys, interval }: ElementsCommand): string {
  const numbers = Array.from({ length: keys.length / 4 }, (_, i) =>
    keys.subarray(4 * i, 4 * i + 4).join('.'),
  );
  const pairs = numbers.flatMap((first, i) => (i % 2 === 0 ? `${first}-${numbers[i + 1]}` : []));
  return `${SIGNS[kind]} ${(interval ? pairs : numbers).join(' ')}`.trim();
}

describe('a change of members', () => {
  it('adds, then deletes', () => {
    assert.deepEqual(change(false, ['10.0.0.1', '10.0.0.2'], ['10.0.0.2', '10.0.0.3']), {
      more: ['+ 10.0.0.3'],
      less: ['- 10.0.0.1'],
    });
    assert.deepEqual(change(false, ['10.0.0.1'], ['10.0.0.1']), { more: [], less: [] });
  });

  it('only adds to a new set; flushes one with elements of another kind', () => {
    const wanted = set(true, members('10.0.0.0/31', '10.0.0.9'));
    const { more, less } = memberChange(undefined, wanted);
    assert.deepEqual([more.map(text), less], [['+ 10.0.0.0-10.0.0.1 10.0.0.9-10.0.0.9'], []]);
    const again = memberChange({ ...wanted, members: null }, wanted);
    assert.deepEqual(
      [again.more.map(text), again.less],
      [['*', '+ 10.0.0.0-10.0.0.1 10.0.0.9-10.0.0.9'], []],
    );
  });

  it('replaces growing ranges with the additions, shrinking ranges with the deletions', () => {
    assert.deepEqual(change(true, ['10.0.0.0/24', '10.0.9.9'], ['10.0.0.0/16']), {
      more: ['- 10.0.0.0-10.0.0.255 10.0.9.9-10.0.9.9', '+ 10.0.0.0-10.0.255.255'],
      less: [],
    });
    assert.deepEqual(change(true, ['10.0.0.0/16', '11.0.0.0/8'], ['10.0.1.0/24', '10.0.3.1', '12.0.0.0/8']), {
      more: ['+ 12.0.0.0-12.255.255.255'],
      less: ['- 10.0.0.0-10.0.255.255 11.0.0.0-11.255.255.255', '+ 10.0.1.0-10.0.1.255 10.0.3.1-10.0.3.1'],
    });
  });

  it('never misses a member that stays, and never overlaps', () => {
    const prefix = fc
      .tuple(fc.nat(31), fc.constantFrom(27, 28, 29, 30, 31, 32))
      .map(([host, length]) => formatCidr(parseCidr(`10.0.0.${host}/${length}`)?.cidr ?? ANY));
    const lists = fc.array(prefix, { maxLength: 6 });
    fc.assert(
      fc.property(lists, lists, (from, to) => {
        const [before, after] = [members(...from), members(...to)];
        const { more, less } = memberChange(set(true, before), set(true, after));
        const current = new Map<string, [number, number]>();
        const run = (commands: readonly ElementsCommand[]) => {
          for (const { kind, keys } of commands) {
            for (let at = 0; at < keys.length; at += 8) {
              const range: [number, number] = [keys[at + 3] ?? 0, keys[at + 7] ?? 0];
              const key = range.join('-');
              if (kind === 'deleteElements') assert.ok(current.delete(key), `${key} is not there`);
              else {
                for (const [a, b] of current.values())
                  assert.ok(b < range[0] || range[1] < a, `${key} overlaps`);
                current.set(key, range);
              }
            }
          }
          return new Set(
            [...current.values()].flatMap(([a, b]) => Array.from({ length: b - a + 1 }, (_, i) => a + i)),
          );
        };
        run(memberChange(undefined, set(true, before)).more);
        const old = run([]);
        const both = run(more);
        const now = run(less);
        for (const host of [...old, ...now]) assert.ok(both.has(host), `${host} is in neither for a moment`);
        assert.deepEqual([...now].sort(), [...hosts(after)].sort());
      }),
    );
  });
});

const ANY: Cidr = { family: 4, value: 0n, length: 0 };

function hosts({ singles, prefixes }: SetMembers): Set<number> {
  const found = new Set<number>();
  for (let at = 3; at < singles.length; at += 4) found.add(singles[at] ?? 0);
  for (const { value, length } of prefixes) {
    for (let i = 0; i < 2 ** (32 - length); i++) found.add(Number(value & 255n) + i);
  }
  return found;
}
