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

const name = fc.constantFrom(...NAMES);
const setType = fc.constantFrom('hash:ip', 'hash:net', 'list:set');
const timeout = fc.constantFrom({}, {}, { timeout: 0 });
const maxelem = fc.constantFrom({}, { maxelem: 2 });
const family = fc.constantFrom({}, {}, { family: 'inet6' as const });
const comment = fc.constantFrom({}, { comment: true });
const note = fc.constantFrom({}, {}, { comment: 'a note' });

const definition: fc.Arbitrary<SetDefinition> = fc
  .tuple(name, setType, timeout, maxelem, family, comment)
  .map(([name, type, ...[seconds, limit, kind, notes]]) =>
    type === 'list:set'
      ? { name, type, ...seconds, ...notes }
      : { name, type, ...seconds, ...limit, ...kind, ...notes },
  );

/** Mostly of the type that the set began with. */
function changeOf(sets: readonly SetDefinition[]): fc.Arbitrary<RestoreOperation> {
  const type = (name: string) =>
    fc.oneof(
      { weight: 12, arbitrary: fc.constant(sets.find((set) => set.name === name)?.type ?? 'hash:ip') },
      { weight: 1, arbitrary: setType },
    );
  const wanted = name.chain((one) => type(one).map((of) => ({ name: one, type: of })));
  return fc
    .tuple(fc.constantFrom('add', 'add', 'add', 'del'), wanted, timeout, note)
    .chain(([op, set, seconds, notes]): fc.Arbitrary<unknown> => {
      if (set.type === 'list:set')
        return name.map((member) => ({ op, set, entry: { set: member, ...notes } }));
      const [field, values] = set.type === 'hash:ip' ? ['ip', ADDRESSES] : ['net', NETS];
      return fc
        .constantFrom(...values)
        .map((value) => ({ op, set, entry: { [field]: value, ...seconds, ...notes } }));
    }) as fc.Arbitrary<RestoreOperation>;
}

function operationOn(sets: readonly SetDefinition[]): fc.Arbitrary<RestoreOperation> {
  return fc.oneof(
    { weight: 1, arbitrary: definition.map((set): RestoreOperation => ({ op: 'create', set })) },
    { weight: 12, arbitrary: changeOf(sets) },
    { weight: 1, arbitrary: fc.record({ op: fc.constantFrom('flush' as const, 'destroy' as const), name }) },
    {
      weight: 1,
      arbitrary: fc.record({ op: fc.constantFrom('swap' as const, 'rename' as const), from: name, to: name }),
    },
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
      error = [reason.code, reason.line];
    }
    const sets = await ipset.save();
    found.push({
      error,
      // The seed of the hash is random, and the order of entries with it, but for lists.
      sets: sets
        .map((set) => ({
          ...set,
          initval: null,
          entries:
            set.type === 'list:set' ? set.entries : set.entries.map((entry) => JSON.stringify(entry)).sort(),
        }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    });
  }
  return found;
}
