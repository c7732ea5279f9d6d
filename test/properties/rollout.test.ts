import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import type { NodeReport } from '../../apis/node-report.ts';
import { type ClusterNetworkPolicy, NO_OBJECTS } from '../../apis/objects.ts';
import type { RolloutDecision, RolloutStatus } from '../../apis/rollout.ts';
import type { StreamMessage } from '../../apis/stream.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { Hub } from '../../controller/publish/hub.ts';
import { linePrefix } from '../../controller/publish/messages.ts';
import { formatRevision } from '../../controller/publish/resume-log.ts';
import { RolloutKeeper } from '../../controller/rollout/keeper.ts';
import { NodeVersions } from '../../controller/rollout/node-versions.ts';
import { placeInRollout, takesPart } from '../../controller/rollout/order.ts';
import type { WatchedPolicy } from '../../controller/status/policy-versions.ts';
import { Realization } from '../../controller/status/realization.ts';
import { WATCHED } from '../../controller/watch/cluster/resources.ts';
import { rolloutReader } from '../../controller/watch/cluster/stored-object.ts';
import { type FakeClock, fakeClock } from '../fake/fake-clock.ts';
import { checkAsync } from './runs.ts';

const NODES = Array.from({ length: 12 }, (_, i) => ({
  kind: 'Node' as const,
  name: `n${i}`,
  labels: { 'topology.kubernetes.io/zone': `z${i % 3}` },
  addresses: [],
}));
const REPLICAS = 3;
const POLICIES_AT = WATCHED.findIndex(({ name }) => name === 'clusternetworkpolicies.nodewall.io');

/** A policy as the API server has it, at one resource version. */
interface Stored {
  readonly name: string;
  readonly generation: number;
  readonly version: number;
  readonly rollout: RolloutStatus | null;
  /** The annotation. */
  readonly command: string | null;
}

/** The API server: one log of all changes, and compare and swap. */
class Api {
  readonly log: Stored[] = [];
  readonly latest = new Map<string, Stored>();
  #version = 0;

  put(name: string, change: (before: Stored | null) => Omit<Stored, 'name' | 'version'>): void {
    const now = { name, ...change(this.latest.get(name) ?? null), version: ++this.#version };
    this.latest.set(name, now);
    this.log.push(now);
  }

  edit(name: string): void {
    this.put(name, (before) => ({
      generation: (before?.generation ?? 0) + 1,
      rollout: before?.rollout ?? null,
      command: before?.command ?? null,
    }));
  }

  annotate(name: string, command: string | null): void {
    this.put(name, (before) => ({
      generation: before?.generation ?? 1,
      rollout: before?.rollout ?? null,
      command,
    }));
  }
}

function toPolicy(
  { name, generation, version, rollout }: Stored,
  group: boolean,
  before?: ClusterNetworkPolicy,
) {
  const spec = {
    priority: generation,
    rollout: group ? { group: 'g' } : {},
    appliedTo: [{ nodeSelector: {} }],
    ingress: [{ name: 'r', action: 'Drop' as const }],
  };
  const raw = {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name, uid: name, generation },
    spec,
    // A status is written only once something is decided.
    status: { ...(rollout?.decision === undefined ? {} : { phase: 'Pending' }), rollout },
  };
  const policy: ClusterNetworkPolicy = {
    kind: 'ClusterNetworkPolicy',
    apiGroup: 'nodewall.io',
    name,
    uid: name,
    generation,
    spec,
  };
  return rolloutReader(raw, version, {}, before?.rollout)(policy);
}

/** A controller: two watches that lag behind each other, and all that follows from them. */
class Replica {
  readonly #trial: Trial;
  readonly #versions = new NodeVersions();
  readonly #compile = compiler();
  readonly #hub = new Hub({ gate: true });
  readonly realization: Realization;
  readonly keeper: RolloutKeeper;
  readonly epoch: string;
  readonly #policies = new Map<string, ClusterNetworkPolicy>();
  readonly #watched = new Map<string, WatchedPolicy>();
  #compiled = this.#compile(NO_OBJECTS);
  #number = 0;
  source: number;
  watch: number;
  isAlive = true;

  constructor(trial: Trial, epoch: string) {
    this.#trial = trial;
    this.epoch = epoch;
    const { clock, api } = trial;
    this.realization = new Realization(clock.now);
    this.keeper = new RolloutKeeper({
      defaults: { steps: [1, '25%', '50%', '100%'], pause: 1, maxFailures: 0 },
      versions: this.#versions,
      outcome: (node, generations) =>
        this.realization.outcome(
          node,
          new Map([...generations].map(([name, to]) => [`nodewall.io/${name}`, to])),
        ),
      write: async (policy, rollout) => {
        await turn();
        if (this.isAlive) trial.write(policy, rollout);
        await turn();
      },
      decided: () => undefined,
      failed: () => undefined,
      clock: Object.assign(Object.create(clock) as FakeClock, { date: () => new Date(clock.now()) }),
    });
    [this.source, this.watch] = [0, 0];
    const all = [...api.latest.values()];
    this.#takeSource(all);
    for (const one of all) this.#takeWatched(one);
    this.source = this.watch = api.log.length;
  }

  get position(): number {
    return this.#trial.api.log[this.source - 1]?.version ?? 0;
  }

  get revision(): string {
    const position = WATCHED.map((_, i) => (i === POLICIES_AT ? this.position : 0));
    return formatRevision({ epoch: this.epoch, number: this.#number, position });
  }

  follow(source: number, watch: number): void {
    const { log } = this.#trial.api;
    const news = log.slice(this.source, this.source + source);
    this.source += news.length;
    if (news.length > 0) this.#takeSource(news);
    for (const one of log.slice(this.watch, this.watch + watch)) {
      this.watch++;
      this.#takeWatched(one);
    }
  }

  /** As an agent gets it that connects anew, with nothing. */
  generations(node: string): ReadonlyMap<string, number> {
    const found = new Map<string, number>();
    const watch = this.#hub.watch(node, null, (lines) => {
      for (const [i, line] of lines.entries()) {
        const message = JSON.parse(linePrefix(i, line) + line.body.toString()) as StreamMessage;
        if (message.type !== 'rules') continue;
        for (const { source } of message.rules) found.set(source.policy, source.generation);
      }
    });
    watch.close();
    return found;
  }

  kill(): void {
    this.isAlive = false;
    this.keeper.lead(false);
  }

  #takeSource(news: readonly Stored[]): void {
    for (const one of news)
      this.#policies.set(one.name, toPolicy(one, this.#trial.isGroup, this.#policies.get(one.name)));
    const objects = { ...NO_OBJECTS, nodes: NODES, policies: [...this.#policies.values()] };
    this.#compiled = this.#compile(this.#versions.on(objects));
    this.#number++;
    this.#hub.publish(this.#compiled);
    this.realization.publish(this.#compiled, this.revision);
    this.keeper.publish(objects, this.#compiled.policies);
  }

  #takeWatched({ name, generation, version, rollout, command }: Stored): void {
    const before = this.#watched.get(name) ?? null;
    const since = before?.generation === generation ? before.since : version;
    const now: WatchedPolicy = {
      apiGroup: 'nodewall.io',
      name,
      uid: name,
      generation,
      since,
      status: null,
      rollout,
      command,
      resourceVersion: version,
    };
    this.#watched.set(name, now);
    this.keeper.version(before, now);
    this.realization.progress(`nodewall.io/${name}`, since, generation);
  }
}

interface SimulatedNode {
  readonly name: string;
  replica: number;
  position: number;
  revision: string;
  generations: ReadonlyMap<string, number>;
}

class Trial {
  readonly clock = fakeClock();
  readonly api = new Api();
  readonly isGroup: boolean;
  readonly names: readonly string[];
  readonly replicas: Replica[] = [];
  readonly nodes: readonly SimulatedNode[];
  readonly violations: string[] = [];
  #leader = 0;
  #epoch = 0;

  constructor(isGroup: boolean) {
    this.isGroup = isGroup;
    this.names = isGroup ? ['a', 'b'] : ['a'];
    for (const name of this.names) this.api.edit(name);
    for (let i = 0; i < REPLICAS; i++) this.replicas.push(new Replica(this, `e${this.#epoch++}`));
    this.nodes = NODES.map(({ name }, i) => {
      return { name, replica: i % REPLICAS, position: 0, revision: '', generations: new Map() };
    });
    this.replicas[0]?.keeper.lead(true);
  }

  /** Refused if the policy has changed; a step must not begin before the one before is done. */
  write({ name, resourceVersion }: WatchedPolicy, rollout: RolloutStatus | null): void {
    const there = this.api.latest.get(name);
    if (there?.version !== resourceVersion) throw new Error('the object has been modified');
    this.#checkStep(there.rollout?.decision, rollout?.decision);
    const { generation, command } = there;
    this.api.put(name, () => ({ generation, rollout, command }));
  }

  /** The keeper takes an exception for a failed write. */
  #checkStep(last: RolloutDecision | undefined, next: RolloutDecision | undefined): void {
    if (next === undefined || last?.state !== 'Progressing' || next.serial <= last.serial) return;
    if (next.state === 'Paused' || next.state === 'Undone') return;
    const isSteered = next.policies.some((now) => {
      const was = last.policies.find(({ uid }) => uid === now.uid);
      return was?.to !== now.to || was.command !== now.command;
    });
    if (isSteered) return;
    if (next.state !== 'Completed' && next.step !== last.step + 1)
      this.violations.push(`step ${next.step} follows ${last.step}`);
    for (const { name, generations } of this.nodes) {
      if (!takesPart(last, name, placeInRollout(name, last.key))) continue;
      const isConfirmed = last.policies.every((policy) => generations.get(policy.name) === policy.to);
      if (!isConfirmed) this.violations.push(`${name} has not confirmed step ${last.step}`);
    }
  }

  sync(node: SimulatedNode): void {
    const replica = this.replicas[node.replica];
    if (replica === undefined || replica.position < node.position) {
      node.replica = (node.replica + 1) % REPLICAS;
      return;
    }
    const now = replica.generations(node.name);
    for (const name of this.names) {
      const [before, after] = [node.generations.get(name) ?? 0, now.get(name) ?? 0];
      const isAllowed = this.#mayGoBack(node.position, replica.position);
      assert.ok(after >= before || isAllowed, `${node.name} went back from ${before} to ${after}`);
    }
    if (this.isGroup) assert.ok(this.#areOfOneDecision(now), `${node.name} has ${JSON.stringify([...now])}`);
    node.generations = now;
    node.position = replica.position;
    node.revision = replica.revision;
  }

  report({ name, revision }: SimulatedNode): void {
    const report = { node: name, enforced: revision, enabled: true, failing: [] } as unknown as NodeReport;
    for (const replica of this.replicas) {
      replica.realization.report(report);
      replica.keeper.reported();
    }
  }

  /** The leader ends; another replica leads, and one with an empty memory begins. */
  kill(next: number): void {
    this.replicas[this.#leader]?.kill();
    this.replicas[this.#leader] = new Replica(this, `e${this.#epoch++}`);
    this.#leader = next;
    this.replicas[next]?.keeper.lead(true);
  }

  #areOfOneDecision(generations: ReadonlyMap<string, number>): boolean {
    const decisions = this.api.log.flatMap(({ rollout }) => rollout?.decision ?? []);
    return (
      generations.size === 0 ||
      decisions.some(({ policies }) => {
        const isOf = (version: 'from' | 'to'): boolean =>
          policies.every((one) => (generations.get(one.name) ?? 0) === one[version]);
        return isOf('from') || isOf('to');
      })
    );
  }

  /** A newer version takes nodes back that had one in between, and so does undo. */
  #mayGoBack(before: number, now: number): boolean {
    const [was, is] = [this.#decisionAt(before), this.#decisionAt(now)];
    const aims = (decision: RolloutDecision | null) => JSON.stringify(decision?.policies.map(({ to }) => to));
    const between = this.api.log.filter(({ version }) => version > before && version <= now);
    return aims(was) !== aims(is) || between.some(({ rollout }) => rollout?.decision?.state === 'Undone');
  }

  #decisionAt(position: number): RolloutDecision | null {
    const decisions = this.api.log
      .filter(({ version }) => version <= position)
      .flatMap(({ rollout }) => rollout?.decision ?? []);
    return decisions.reduce<RolloutDecision | null>(
      (last, one) => (one.serial > (last?.serial ?? 0) ? one : last),
      null,
    );
  }

  get isCompleted(): boolean {
    return this.names.every((name) => {
      const { generation, rollout } = this.api.latest.get(name) ?? {};
      const { state, policies } = rollout?.decision ?? {};
      return state === 'Completed' && policies?.find((one) => one.uid === name)?.to === generation;
    });
  }

  /** Until nothing is left to do. */
  async finish(): Promise<void> {
    for (const name of this.names) this.api.annotate(name, null);
    for (let i = 0; i < 200; i++) {
      const states = this.names.map((name) => this.api.latest.get(name)?.rollout?.decision?.state);
      if (i % 20 === 0 && states.includes('Undone')) for (const name of this.names) this.api.edit(name);
      const isDone = this.nodes.every(({ generations }) =>
        this.names.every((name) => generations.get(name) === this.api.latest.get(name)?.generation),
      );
      if (this.isCompleted && isDone) return;
      for (const replica of this.replicas) replica.follow(100, 100);
      for (const node of this.nodes) this.sync(node);
      for (const node of this.nodes) this.report(node);
      this.clock.pass(1_100);
      for (let k = 0; k < 4; k++) await turn();
    }
    assert.fail(`it does not end: ${JSON.stringify([...this.api.latest.values()])}`);
  }
}

const small = fc.nat(2);
const event = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant('follow' as const),
      replica: small,
      source: small,
      watch: small,
    }),
  },
  { weight: 6, arbitrary: fc.record({ type: fc.constant('sync' as const), node: fc.nat(11) }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('report' as const), node: fc.nat(11) }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('time' as const), seconds: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('kill' as const), next: small }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('edit' as const), policy: fc.nat(1) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant('command' as const),
      command: fc.constantFrom('pause', 'resume', 'undo', 'promote', null),
    }),
  },
);

describe('a rollout whose leader may end at any moment', function () {
  this.timeout(0);

  it('skips no step, takes no node back, mixes no group, and ends', async function () {
    const trials = fc.record({
      isGroup: fc.boolean(),
      events: fc.array(event, { minLength: 40, maxLength: 120 }),
    });
    await checkAsync(this, 12, trials, async ({ isGroup, events }) => {
      const trial = new Trial(isGroup);
      await trial.finish();
      for (const name of trial.names) trial.api.edit(name);
      for (const one of events) {
        if (one.type === 'follow') trial.replicas[one.replica]?.follow(one.source, one.watch);
        else if (one.type === 'sync') trial.sync(trial.nodes[one.node] as SimulatedNode);
        else if (one.type === 'report') trial.report(trial.nodes[one.node] as SimulatedNode);
        else if (one.type === 'kill') trial.kill(one.next);
        else if (one.type === 'time') trial.clock.pass(one.seconds * 500 + 30);
        else if (one.type === 'command') trial.api.annotate('a', one.command);
        else trial.api.edit(trial.names[one.policy] ?? 'a');
        await turn();
      }
      await trial.finish();
      assert.deepEqual(trial.violations, []);
    });
  });
});
