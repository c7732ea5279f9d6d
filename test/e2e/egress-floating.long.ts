/**
 * Floating addresses in a cluster: a real API server, a controller and agents. The owner's agent is
 * asked to give up, killed, stopped, restarted, and cut off from the controller; meanwhile somebody
 * on the link asks all the time who has the addresses, and connections go on.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { egressPolicy } from '../kernel/egress-agents.ts';
import { type EgressLab, type LabFlow, SERVER } from '../kernel/egress-lab.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { listen, talk } from '../kernel/talk.ts';
import { until } from '../kernel/until.ts';
import { type Answer, type NeighbourWatch, watchNeighbours } from '../kernel/watch-neighbours.ts';
import { NODEWALL } from '../program.ts';
import { type EgressBed, gateway, startEgressBed } from './egress-bed.ts';

/** Who answers for floating addresses, by all answers on the link since the start. */
class FloatingWatch {
  readonly #watch: NeighbourWatch;
  readonly #addresses: readonly string[];
  readonly #answers: Answer[] = [];
  /** Answers before this are of earlier steps. */
  #from = 0;

  static async start(lab: EgressLab, addresses: readonly string[]): Promise<FloatingWatch> {
    const nodes = new Map([...lab.nodes].map(([name, { namespace }]) => [name, namespace]));
    return new FloatingWatch(await watchNeighbours(lab.server, nodes, addresses), addresses);
  }

  private constructor(watch: NeighbourWatch, addresses: readonly string[]) {
    this.#watch = watch;
    this.#addresses = addresses;
  }

  close(): void {
    this.#watch.close();
  }

  /** The node that answers for every address; a new step begins. */
  async ownerOfAll(): Promise<string> {
    let owner: string | undefined;
    await this.#read();
    await until('one node has all addresses', async () => {
      this.#from = this.#answers.length;
      await this.#read();
      const owners = this.#addresses.map((address) => this.#last(address)?.node);
      [owner] = owners;
      return owner !== undefined && owners.every((one) => one === owner);
    });
    return owner ?? '';
  }

  async untilAll(node: string, detail: () => string): Promise<void> {
    // Answers of before wait.
    await this.#read();
    this.#from = this.#answers.length;
    const all = async (): Promise<boolean> => {
      await this.#read();
      return this.#addresses.every((address) => this.#last(address)?.node === node);
    };
    await until(`${node} has all addresses`, all, { detail });
  }

  /** Waits until `to` answers; returns for each address how long nobody did, in milliseconds. */
  async moved(from: string, to: string, detail: () => string): Promise<number[]> {
    const isThere = async (): Promise<boolean> => {
      await this.#read();
      return this.#addresses.every((address) => this.#last(address)?.node === to);
    };
    await until(`${to} answers after ${from}`, isThere, { detail });
    return this.#addresses.map((address) => {
      const of = this.#answers.slice(this.#from).filter((one) => one.address === address);
      const last = of.findLast(({ node }) => node === from)?.at ?? Number.NaN;
      return (of.find(({ node }) => node === to)?.at ?? Number.NaN) - last;
    });
  }

  /** The changes of owners since the last step began. */
  async changes(): Promise<string[]> {
    await this.#read();
    return this.#changes(this.#answers.slice(this.#from)).map(({ node }) => node);
  }

  /** Answers of a node after another one had begun to answer. */
  overlaps(): string[] {
    return this.#addresses.flatMap((address) => {
      const of = this.#answers.filter((one) => one.address === address);
      const changes = this.#changes(of);
      // A node that is back within this time had not stopped.
      return changes.flatMap(({ node, at }, i) => {
        const next = changes[i + 1];
        return next !== undefined && next.at - at < 20
          ? [`${address}: ${node} at ${at}, ${next.node} at ${next.at}`]
          : [];
      });
    });
  }

  #changes(answers: readonly Answer[]): Answer[] {
    return this.#addresses.flatMap((address) => {
      const of = answers.filter((one) => one.address === address);
      return of.filter(({ node }, i) => i > 0 && of[i - 1]?.node !== node);
    });
  }

  #last(address: string): Answer | undefined {
    return this.#answers.slice(this.#from).findLast((one) => one.address === address);
  }

  async #read(): Promise<void> {
    this.#answers.push(...(await this.#watch.answers()));
  }
}

const EIP = ['192.0.2.50', '2001:db8:a::50'] as const;
const NODES = ['plain', 'gw-1', 'gw-2'] as const;
const GATEWAYS = ['gw-1', 'gw-2'] as const;
const TALK_PORT = 7100;
const TALKS = 1_000;
/** Of them: those whose owner was cut off, with packets under way. */
const MOST_LOST = 10;
const FLOWS: readonly LabFlow[] = ([4, 6] as const).flatMap((family) =>
  (['tcp', 'udp', 'icmp'] as const).map((protocol) => ({ family, protocol })),
);

kernelSuite('floating addresses in a cluster', function () {
  this.timeout(120_000);
  let bed: EgressBed;
  let watch: FloatingWatch;
  let talks: () => Promise<readonly string[]>;
  const gaps: string[] = [];

  before(async function () {
    this.timeout(1_800_000);
    bed = await startEgressBed(NODES);
    await bed.setGates('NodeNetworkPolicy: true, EgressGateway: true');
    await bed.startController();
    for (const node of NODES) bed.startAgent(node);
    const addresses = { pools: [{ ranges: [...EIP] }] };
    await bed.apply(
      gateway('pool', GATEWAYS, { addresses }),
      egressPolicy('web', ['plain-0'], { gateway: 'pool' }),
    );
    await until('it leaves with the addresses', async () => leaves(), { limit: 60_000, detail: bed.logs });
    watch = await FloatingWatch.start(bed.lab, EIP);
    await listen(bed.lab.server, [TALK_PORT]);
    const calls = Array.from({ length: TALKS }, (_, i) => {
      const host = i % 2 === 0 ? SERVER.v4 : SERVER.v6;
      return { name: `${i}`, host, port: TALK_PORT };
    });
    talks = await talk(bed.lab.pod('plain-0').namespace, calls);
  });
  after(async () => {
    for (const line of gaps) process.stdout.write(`      ${line}\n`);
    watch?.close();
    await bed?.close();
  });

  async function leaves(): Promise<boolean> {
    const sources = await bed.sourcesOf('plain-0', FLOWS);
    return sources.join() === [...EIP].join();
  }

  /**
   * The owner by the answers on the link; both addresses are in one slot or have one owner each.
   */
  const other = (node: string): string => (node === 'gw-1' ? 'gw-2' : 'gw-1');

  /** Something happens to the owner of both addresses, and the other node has them. */
  async function moves(what: string, happen: (owner: string) => Promise<unknown>): Promise<string> {
    const owner = await watch.ownerOfAll();
    await happen(owner);
    const gap = await watch.moved(owner, other(owner), bed.logs);
    gaps.push(`${what}: ${gap.map((one) => Math.round(one)).join(' and ')} ms`);
    await connectionsGoOn();
    assert.ok(await leaves());
    return owner;
  }

  async function connectionsGoOn(): Promise<void> {
    const most = async () => (await talks()).length >= TALKS - MOST_LOST;
    await until('connections go on', most, { limit: 20_000 });
  }

  async function nodewall(node: string, command: 'off' | 'on'): Promise<void> {
    const stateDir = join(bed.cluster.folder, `${node}.state`);
    await bed.lab.node(node).namespace.run([NODEWALL, command, '--state-dir', stateDir]);
  }

  async function annotate(node: string, text: string): Promise<void> {
    const key = 'nodewall.io/egress-drain';
    await bed.cluster.kubectl(['annotate', 'node', node, '--overwrite', `${key}${text}`]);
  }

  it('brings both addresses to one node', async () => {
    await annotate('gw-2', '=true');
    await watch.untilAll('gw-1', bed.logs);
    await annotate('gw-2', '-');
  });

  it('moves by plan', async () => {
    for (let i = 0; i < 3; i++) {
      const drained = await moves('planned move', (owner) => annotate(owner, '=true'));
      await annotate(drained, '-');
      await until('it is ready again', async () => isReady(drained), { detail: bed.logs });
    }
  });

  it('moves when the agent is killed', async () => {
    const killed = await moves('agent killed', (owner) => bed.agent(owner).end('SIGKILL'));
    bed.startAgent(killed);
    await until('it is ready again', async () => isReady(killed), { detail: bed.logs });
  });

  it('moves when the agent is stopped, and what goes on later harms nothing', async () => {
    const stopped = await moves('agent stopped', (owner) => bed.agent(owner).signal('SIGSTOP'));
    await bed.agent(stopped).signal('SIGCONT');
    await until('it is ready again', async () => isReady(stopped), { detail: bed.logs });
    await watch.untilAll(other(stopped), bed.logs);
  });

  it('moves when the owner does not reach the controller', async () => {
    const cut = await moves('cut off from the controller', async (owner) => {
      const rules = `table inet cut { chain out { type filter hook output priority -400; tcp dport 8443 drop; }; }`;
      await bed.lab.node(owner).namespace.run(['nft', '-f', '-'], { stdin: rules });
    });
    await bed.lab.node(cut).namespace.run(['nft', 'delete', 'table', 'inet', 'cut']);
    await until('it is ready again', async () => isReady(cut), { limit: 60_000, detail: bed.logs });
  });

  it('moves when nothing passes the interface of the owner', async () => {
    const hook = (name: string): string =>
      `chain ${name} { type filter hook ${name} device eth0 priority 0; policy drop; }`;
    const rules = `table netdev cut { ${hook('ingress')}; ${hook('egress')}; }`;
    const cut = await moves('nothing passes its interface', async (owner) => {
      await bed.lab.node(owner).namespace.run(['nft', '-f', '-'], { stdin: rules });
    });
    await bed.lab.node(cut).namespace.run(['nft', 'delete', 'table', 'netdev', 'cut']);
    await until('it is ready again', async () => isReady(cut), { limit: 60_000, detail: bed.logs });
  });

  it('moves when the owner is switched off, and comes back to life with the rules', async () => {
    const off = await moves('nodewall off', (owner) => nodewall(owner, 'off'));
    await nodewall(off, 'on');
    await until('it is ready again', async () => isReady(off), { detail: bed.logs });
  });

  it('stays where it is while the controller is killed and another one begins', async () => {
    const owner = await watch.ownerOfAll();
    await bed.agent('controller').end('SIGKILL');
    await bed.startController();
    await watch.untilAll(owner, bed.logs);
    await connectionsGoOn();
  });

  it('a restart of the agent while rules are tried moves nothing', async () => {
    const owner = await watch.ownerOfAll();
    await bed.apply(...Array.from({ length: 30 }, (_, i) => largePolicy(i)));
    const tries = async (): Promise<boolean> =>
      /"rules":3000.*the new rules are in force and tried/s.test(bed.agent(owner).log());
    await until('the rules are tried', tries, { limit: 60_000, detail: bed.logs });
    await restartMovesNothing(owner);
  });

  it('keeps its leases while 10,000 rules are applied', async () => {
    const owner = await watch.ownerOfAll();
    const before = bed.agent(owner).log().length;
    await bed.apply(...Array.from({ length: 100 }, (_, i) => largePolicy(i)));
    const has = async (): Promise<boolean> => /"rules":10000/.test(bed.agent(owner).log());
    await until('10,000 rules are in force', has, { limit: 90_000, detail: bed.logs });
    await movedNothing();
    assert.deepEqual(linesOf(bed.agent(owner).log().slice(before), /lease of floating/), []);
    await watch.untilAll(owner, bed.logs);
  });

  it('a restart of the agent with 10,000 rules moves nothing', async () => {
    await restartMovesNothing(await watch.ownerOfAll());
  });

  async function restartMovesNothing(owner: string): Promise<void> {
    await bed.restartAgent(owner);
    const goesOn = async (): Promise<boolean> => /goes on with floating/.test(bed.agent(owner).log());
    await until('the new process goes on', goesOn, { detail: bed.logs });
    // Longer than a lease.
    await pause(3_000);
    await watch.untilAll(owner, bed.logs);
    await movedNothing();
    await connectionsGoOn();
  }

  /** Since the step began. */
  async function movedNothing(): Promise<void> {
    const said = ['controller', ...GATEWAYS].flatMap((name) =>
      linesOf(bed.agent(name).log(), /floating|slots/),
    );
    assert.deepEqual(await watch.changes(), [], said.slice(-20).join('\n'));
  }

  async function isReady(node: string): Promise<boolean> {
    const status = await bed.gatewayStatus('pool');
    return status?.nodes?.some((one) => one.name === node && one.ready) === true;
  }

  it('never had two owners at one moment', () => {
    assert.deepEqual(watch.overlaps(), []);
  });
});

function linesOf(log: string, what: RegExp): string[] {
  return log.split('\n').filter((line) => what.test(line));
}

/** 100 rules of 10,000, each with a port and a network of its own. */
function largePolicy(index: number): object {
  const ingress = Array.from({ length: 100 }, (_, i) => ({
    name: `r${i}`,
    action: 'Drop',
    ports: [{ protocol: 'TCP', port: 20_000 + 100 * index + i }],
    from: [{ ipBlock: { cidr: `172.16.${index}.${i}/32` } }],
  }));
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: `large-${index}` },
    spec: { appliedTo: [{ nodeSelector: {} }], priority: 1_000 + index, ingress },
  };
}
