/**
 * An address moves from set to set while packets come from it: between the sets of two rules that
 * drop it nothing is ever let through, between those of two that let it through nothing is ever
 * dropped. The rules are on one port and so many that nftables has an address map lead to them.
 */
import assert from 'node:assert/strict';
import { EITHER_IPTABLES, forEachDataplane, NFTABLES } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { floodTime, passedDuring } from './flood-tool.ts';
import { policy, type Rule, udp } from './manifests.ts';
import { withVariations } from './variations.ts';

const TIME = floodTime(2_000);
const LEAST_MOVES = 10;
const CLOSED = 9;
const OPEN = 10;
const SETS = 12;

forEachDataplane(
  'an address that moves under a flood',
  (dataplane) => {
    let node: EnforcedNode;
    beforeEach(async () => {
      node = await createEnforcedNode(undefined, dataplane);
    });
    afterEach(() => node?.close());

    // iptables has no index by addresses: the rules on one port are a list either way.
    const cases =
      dataplane === NFTABLES
        ? withVariations<Case>([indexed(4), linear(6)], [indexed(6), linear(4)])
        : withVariations<Case>([indexed(6)], [indexed(4)]);
    for (const { family, dispatch } of cases) {
      it(`is dropped, and allowed, by one of its two rules at every moment (IPv${family}, ${dispatch})`, async () => {
        const { clientAddresses } = node.topology.plan;
        const [dropped, allowed] = [0, 1].map((client) =>
          clientAddresses.find((one) => one.client === client),
        );
        assert(dropped && allowed);
        const write = (step: number) =>
          node.write('pods.json', [
            ...fixedPods(),
            pod('dropped', `set-${step % SETS}`, [dropped.v4, dropped.v6]),
            pod('allowed', `set-${(step + 5) % SETS}`, [allowed.v4, allowed.v6]),
            pod('marker', 'marker', [marker(step)]),
          ]);
        await node.write('policies.json', policies());
        await write(0);
        const agent = node.start(...(await node.configure({ dispatch })));
        await node.untilEnforced(marker(0), agent);
        const maps = (await node.rules()).match(/vmap @input-udp|ip6? saddr vmap/g) ?? [];
        assert.equal(maps.length > 0, dataplane === NFTABLES && dispatch === 'indexed', maps.join());
        let step = 0;
        const targets = [
          { protocol: 'udp', port: CLOSED, family, client: 0 },
          { protocol: 'udp', port: OPEN, family, client: 1, rate: 20_000 },
        ] as const;
        const [closed, open] = await passedDuring(node.topology, targets, async () => {
          const end = performance.now() + TIME * dataplane.share;
          while (performance.now() < end || step < LEAST_MOVES) {
            step++;
            await write(step);
            await node.untilEnforced(marker(step), agent);
          }
        });
        assert(closed && open && closed.arrived > 1_000, JSON.stringify(closed));
        assert.equal(closed.passed, 0, `${closed.passed} of ${closed.arrived} leaked in ${step} moves`);
        assert.equal(
          open.passed,
          open.arrived,
          `of ${open.arrived} only ${open.passed} passed in ${step} moves`,
        );
        await agent.end('SIGTERM');
      });
    }
  },
  EITHER_IPTABLES,
);

interface Case {
  readonly family: 4 | 6;
  readonly dispatch: 'indexed' | 'linear';
}

function indexed(family: 4 | 6): Case {
  return { family, dispatch: 'indexed' };
}

function linear(family: 4 | 6): Case {
  return { family, dispatch: 'linear' };
}

/** On either port a rule for each set; behind those that let through, one that drops the rest. */
function policies(): object[] {
  const rule = (action: Rule['action'], port: number) => (_: unknown, i: number) => ({
    action,
    from: [{ podSelector: { matchLabels: { app: `set-${i}` } } }],
    ports: [udp(port)],
  });
  const each = (action: Rule['action'], port: number) => Array.from({ length: SETS }, rule(action, port));
  const marked = {
    action: 'Drop',
    from: [{ podSelector: { matchLabels: { app: 'marker' } } }],
    ports: [udp(11)],
  } as const;
  return [
    policy('dropping', { ingress: each('Drop', CLOSED) }),
    policy('letting', { ingress: [...each('Allow', OPEN), { action: 'Drop', ports: [udp(OPEN)] }] }),
    policy('marked', { ingress: [marked] }),
  ];
}

/** Each set has members of its own, and some that are in no other. */
function fixedPods(): object[] {
  return Array.from({ length: 4 * SETS }, (_, i) =>
    pod(`fixed-${i}`, `set-${i % SETS}`, [`10.66.0.${i + 1}`, `fd66::${(i + 1).toString(16)}`]),
  );
}

/** An address that says which step is in force. */
function marker(step: number): string {
  return `10.77.${step >> 8}.${step & 255}`;
}

function pod(name: string, app: string, addresses: readonly string[]): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'shop', labels: { app } },
    status: { phase: 'Running', podIP: addresses[0], podIPs: addresses.map((ip) => ({ ip })) },
  };
}
