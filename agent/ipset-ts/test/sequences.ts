/** Operations on few sets and few entries, so that most of what can go wrong does. */
import fc from 'fast-check';
import { type Ipset, IpsetError, type RestoreOperation, type SetDefinition } from '../lib/index.ts';

const NAMES = ['a', 'b', 'c'] as const;
const ADDRESSES = [
  '192.0.2.1',
  '192.0.2.2',
  '192.0.2.0/31',
  '192.0.2.1-192.0.2.3',
  '192.0.2.1',
  '::1',
  '::2',
  '0.0.0.0',
];
const NETS = ['10.0.0.0/28', '10.0.0.0/30', '10.0.0.5', '10.0.0.0-10.0.0.2', '::/0', '2001:db8::/32'];
const SERVICES = ['192.0.2.1,tcp:80', '192.0.2.1,tcp:80-81', '192.0.2.2,gre:0', '::1,udp:53', '192.0.2.1'];
const VALUES = { 'hash:ip': ADDRESSES, 'hash:net': NETS, 'hash:ip,port': SERVICES } as const;

const name = fc.constantFrom(...NAMES);
const setType = fc.constantFrom('hash:ip', 'hash:net', 'hash:ip,port');
const timeout = fc.constantFrom({}, {}, { timeout: 0 });
const maxelem = fc.constantFrom({}, { maxelem: 2 });
const family = fc.constantFrom({}, {}, { family: 'inet6' as const });

const definition: fc.Arbitrary<SetDefinition> = fc
  .tuple(name, setType, timeout, maxelem, family)
  .map(([name, type, ...[seconds, limit, kind]]) => ({ name, type, ...seconds, ...limit, ...kind }));

/** Mostly of the type that the set began with. */
function changeOf(sets: readonly SetDefinition[]): fc.Arbitrary<RestoreOperation> {
  const type = (set: string): fc.Arbitrary<SetDefinition['type']> =>
    fc.oneof(
      { weight: 12, arbitrary: fc.constant(sets.find((one) => one.name === set)?.type ?? 'hash:ip') },
      { weight: 1, arbitrary: setType },
    );
  const entry = name.chain((set) =>
    type(set)
      .chain((of) => fc.constantFrom(...VALUES[of]))
      .map((value) => ({ set, entry: value })),
  );
  return fc
    .tuple(fc.constantFrom('add', 'add', 'add', 'del'), entry, timeout)
    .map(
      ([op, one, seconds]): RestoreOperation =>
        op === 'add' ? { op, ...one, ...seconds } : { op: 'del', ...one },
    );
}

function operationOn(sets: readonly SetDefinition[]): fc.Arbitrary<RestoreOperation> {
  return fc.oneof(
    { weight: 1, arbitrary: definition.map((set): RestoreOperation => ({ op: 'create', set })) },
    { weight: 12, arbitrary: changeOf(sets) },
    { weight: 1, arbitrary: fc.record({ op: fc.constantFrom('flush' as const, 'destroy' as const), name }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant('swap' as const), from: name, to: name }) },
  );
}

/** One call of restore. */
export interface Step {
  readonly operations: readonly RestoreOperation[];
  readonly exist: boolean;
}

export const sequences: fc.Arbitrary<Step[]> = fc.tuple(definition, definition, definition).chain((drawn) => {
  const sets = drawn.map((set, index) => ({ ...set, name: NAMES[index] ?? '' }));
  const begin = sets.map((set): Step => ({ operations: [{ op: 'create', set }], exist: false }));
  const operations = fc.array(operationOn(sets), { minLength: 1, maxLength: 5 });
  const steps = fc.array(fc.record({ operations, exist: fc.boolean() }), { minLength: 3, maxLength: 12 });
  return steps.map((more) => [...begin, ...more]);
});

/** The result of each step: the code of its error, and the sets after it. */
export async function outcomes(ipset: Ipset, steps: readonly Step[]): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const { operations, exist } of steps) {
    let error: unknown = null;
    try {
      await ipset.restore(operations, { exist });
    } catch (reason) {
      if (!(reason instanceof IpsetError)) throw reason;
      error = [reason.code, reason.operation];
    }
    const sets = await ipset.save();
    found.push({
      error,
      sets: sets
        .map((set) => ({ ...set, entries: [...set.entries].sort() }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    });
  }
  return found;
}
