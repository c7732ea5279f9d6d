/** Masquerading by interface groups: what a server sees of those who call it. */
import assert from 'node:assert/strict';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import type { RunningAgent } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';
import { FAMILIES, type Family, type Protocol } from './passed-by.ts';
import {
  ADDRESSES,
  ANSWER_PATIENCE,
  type Cluster,
  createCluster,
  NO_NAT,
  of,
  POD_PORT,
} from './passed-by-cluster.ts';
import type { Party } from './passed-by-party.ts';
import type { Answer } from './passed-by-peer.ts';
import { until } from './until.ts';

/** The stranger's networks are reached with the pods' own addresses. */
const ON = { masquerade: { enabled: true, except: ['203.0.113.0/24', '2001:db8:9::/48'] } };
const WITHOUT_EXCEPTIONS = { masquerade: { enabled: true } };
const OFF = {};
const MARKER = 20_000;

type Name = keyof typeof ADDRESSES;
type Who = 'outside' | 'local' | 'neighbour' | 'remote' | 'host';

interface Connection {
  readonly from: Who;
  readonly src: Name;
  readonly dst: Name;
  readonly protocol: Protocol;
  readonly family: Family;
}

const CALLS: readonly (readonly [from: Who, src: Name, dst: Name])[] = [
  ['local', 'local', 'FRIEND'],
  ['neighbour', 'neighbour', 'FRIEND'],
  ['local', 'local', 'STRANGER'],
  ['local', 'local', 'neighbour'],
  ['local', 'local', 'remote'],
  ['local', 'local', 'NODE'],
  // Its own node's affair.
  ['remote', 'remote', 'FRIEND'],
  ['remote', 'remote', 'local'],
  ['host', 'OTHER_OWN', 'FRIEND'],
  ['host', 'OTHER_OWN', 'local'],
  ['outside', 'FRIEND', 'local'],
  ['outside', 'FRIEND', 'remote'],
];
const CONNECTIONS: readonly Connection[] = CALLS.flatMap(([from, src, dst]) =>
  FAMILIES.flatMap((family) =>
    (['tcp', 'udp'] as const).map((protocol) => ({ from, src, dst, protocol, family })),
  ),
);
/** From a pod to outside: those that masquerading is for. */
const isOutwards = ({ from, dst }: Connection): boolean =>
  (from === 'local' || from === 'neighbour') && (dst === 'FRIEND' || dst === 'STRANGER');
const isExcepted = ({ dst }: Connection): boolean => dst === 'STRANGER';

forEachDataplane(
  'masquerading by interface groups',
  (dataplane) => {
    let cluster: Cluster;
    let agent: RunningAgent | undefined;
    let generation = 0;
    before(async () => {
      cluster = await createCluster(NO_NAT, dataplane);
    });
    after(() => cluster?.close());

    /** An agent with another configuration takes the place of the one before. */
    async function restart(config: { readonly masquerade?: object }): Promise<void> {
      const { node } = cluster;
      await agent?.end('SIGTERM');
      const marker = MARKER + ++generation;
      const ingress = [{ action: 'Drop', ports: [tcp(marker)] }] as const;
      await node.write('marker.json', [policy('marker', { ingress })]);
      const next = node.start(...(await node.configure(config)));
      agent = next;
      await node.untilEnforced(String(marker), next);
      // New chains are there a moment before the base chains lead to them.
      await until('the agent says so', async () => next.log().includes('"message":"enforced"'), {
        detail: next.log,
      });
    }

    const call = ({ from, src, dst, protocol, family }: Connection, leaveOpen = false): Promise<Answer> => {
      const party: Party = cluster[from];
      const ends = { src: of(ADDRESSES[src], family), dst: of(ADDRESSES[dst], family) };
      return party.call({ protocol, family, ...ends, port: POD_PORT, patience: ANSWER_PATIENCE, leaveOpen });
    };

    async function assertSeen(isChanged: (connection: Connection) => boolean): Promise<void> {
      const answers = await Promise.all(CONNECTIONS.map((connection) => call(connection)));
      const wrong = CONNECTIONS.flatMap((connection, i) => {
        const answer = answers[i];
        const isRight = isChanged(connection) ? isNodes(answer, connection) : isOwn(answer, connection);
        return isRight ? [] : [`${JSON.stringify(connection)}: ${JSON.stringify(answer)}`];
      });
      assert.deepEqual(wrong, []);
    }

    const isMasqueraded = (connection: Connection): boolean =>
      isOutwards(connection) && !isExcepted(connection);

    it("gives only traffic that leaves the pods' networks the node's address, except to the exceptions; chooses ports at random", async () => {
      await restart(ON);
      await assertSeen(isMasqueraded);
      const connections = CONNECTIONS.filter(isMasqueraded);
      const answers = await Promise.all(connections.flatMap((one) => [call(one), call(one), call(one)]));
      const kept = answers.filter(({ seen, ownPort }) => seen?.port === ownPort);
      // One of 64,000 is the same by chance.
      assert(kept.length <= 1, `${kept.length} of ${answers.length} kept their port`);
    });

    it('is off by default, and changed, turned off and on by a restart; open connections keep their address', async () => {
      // As long as somebody does NAT here, kube-proxy as a rule: without any nat chain the kernel
      // does none for open connections either.
      await cluster.node.nft('table inet other { chain nat { type nat hook output priority -100; }; }\n');
      const outwards = CONNECTIONS.filter(isOutwards);
      const again = (before: readonly Answer[]) =>
        Promise.all(
          before.map((answer, i) => cluster[outwards[i]?.from ?? 'local'].again(answer, ANSWER_PATIENCE)),
        );
      await restart(WITHOUT_EXCEPTIONS);
      await assertSeen(isOutwards);
      const masqueraded = await Promise.all(outwards.map((connection) => call(connection, true)));
      await restart(OFF);
      await assertSeen(() => false);
      assert.doesNotMatch(await cluster.node.rules(), /masquerade/i);
      assert.deepEqual((await again(masqueraded)).map(seen), masqueraded.map(seen));
      const plain = await Promise.all(outwards.map((connection) => call(connection, true)));
      await restart(WITHOUT_EXCEPTIONS);
      await assertSeen(isOutwards);
      assert.deepEqual((await again(plain)).map(seen), plain.map(seen));
      assert.deepEqual((await again(masqueraded)).map(seen), masqueraded.map(seen));
    });
  },
  EITHER_IPTABLES,
);

function seen({ outcome, seen }: Answer): string {
  return outcome === 'answered' && seen !== null ? `${seen.address} ${seen.port}` : outcome;
}

function isNodes(answer: Answer | undefined, { family }: Connection): boolean {
  const own = [ADDRESSES.NODE, ADDRESSES.OTHER_OWN].map((pair) => of(pair, family));
  return answer?.outcome === 'answered' && own.includes(answer.seen?.address ?? '');
}

function isOwn(answer: Answer | undefined, { src, family }: Connection): boolean {
  if (answer?.outcome !== 'answered') return false;
  return answer.seen?.address === of(ADDRESSES[src], family) && answer.seen.port === answer.ownPort;
}
