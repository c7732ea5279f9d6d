import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { finish } from '../../lib/sharing/stepwise.ts';
import { cases } from '../../test/properties/runs.ts';
import { Gateways } from './gateway-index.ts';
import type { Served } from './route.ts';

const NODES = ['n1', 'n2', 'g1', 'g2'];
const CLASSES = ['c1', 'c2', 'c3'];
const GATEWAYS = ['g1', 'g2'];

type ServedBy = ReadonlyMap<string, readonly Served[]>;

interface State {
  /** By node: addresses, or keys of pods, and classes. */
  readonly sources: ReadonlyMap<string, ReadonlyMap<string, string | null>>;
  readonly pods: ReadonlyMap<string, ReadonlyMap<string, string | null>>;
  /** By class and gateway. */
  readonly served: ReadonlyMap<string, ServedBy>;
}

const place = fc.record({
  node: fc.constantFrom(...NODES),
  class: fc.constantFrom(null, ...CLASSES),
});
const places = (keys: readonly string[]) =>
  fc
    .tuple(...keys.map(() => fc.option(place)))
    .map((list) => byNode(list.flatMap((one, i) => (one === null ? [] : { key: keys[i] ?? '', ...one }))));

/** None, IPv4, IPv6, or both, by one of two takes. */
const servedList = fc.tuple(fc.nat(3), fc.constantFrom('eth0', 'eth1')).map(([families, name]) =>
  ([4, 6] as const).flatMap((family, i): Served[] => {
    const take = { kind: 'node', interface: name } as const;
    return ((families >> i) & 1) === 1 ? [{ family, range: { first: 1n, last: 9n }, take }] : [];
  }),
);

const state: fc.Arbitrary<State> = fc.record({
  sources: places(['10.0.0.1', '10.0.0.2', '10.0.0.3', 'fd00::1', 'fd00::2']),
  pods: places(['a', 'b', 'c']),
  served: fc
    .tuple(...CLASSES.map(() => fc.tuple(...GATEWAYS.map(() => fc.option(servedList)))))
    .map((lists) => new Map(lists.map((own, i) => [CLASSES[i] ?? '', toServedBy(own)]))),
});

function byNode(
  list: readonly { readonly key: string; readonly node: string; readonly class: string | null }[],
) {
  const found = new Map<string, Map<string, string | null>>();
  for (const one of list) {
    const own = found.get(one.node) ?? new Map<string, string | null>();
    found.set(one.node, own.set(one.key, one.class));
  }
  return found;
}

function toServedBy(lists: readonly (readonly Served[] | null)[]): ServedBy {
  return new Map(
    lists.flatMap((own, i) => (own === null || own.length === 0 ? [] : [[GATEWAYS[i] ?? '', own] as const])),
  );
}

function advance(gateways: Gateways, before: State | null, now: State): Set<string> {
  const changes = new Map<string, Map<string, readonly Served[] | undefined>>();
  for (const id of CLASSES) {
    for (const gateway of GATEWAYS) {
      const [was, is] = [before?.served.get(id)?.get(gateway), now.served.get(id)?.get(gateway)];
      if (isDeepStrictEqual(was, is)) continue;
      const own = changes.get(gateway) ?? new Map<string, readonly Served[] | undefined>();
      changes.set(gateway, own.set(id, is));
    }
  }
  return finish(gateways.advance(now, changes, (id) => now.served.get(id)));
}

function seen(gateways: Gateways, node: string) {
  const there = gateways.get(node);
  return {
    arrivals: new Map(there?.arrivals),
    served: new Map(there?.servedClasses),
    peers: new Set(there?.peers),
    takes: new Map(there?.takes),
  };
}

describe('gateways', () => {
  it('property: take from the pods that the last state says, whatever was before', () => {
    fc.assert(
      fc.property(fc.array(state, { minLength: 2, maxLength: 6 }), (states) => {
        const gateways = new Gateways();
        let before: State | null = null;
        for (const now of states) {
          const were = GATEWAYS.map((node) => seen(gateways, node));
          const changed = advance(gateways, before, now);
          const anew = new Gateways();
          advance(anew, null, now);
          for (const [i, node] of GATEWAYS.entries()) {
            assert.deepEqual(seen(gateways, node), seen(anew, node), node);
            if (!changed.has(node)) assert.deepEqual(seen(gateways, node), were[i], `${node} is unchanged`);
          }
          before = now;
        }
      }),
      { numRuns: cases(1_000) },
    );
  });
});
