import { isDeepStrictEqual } from 'node:util';
import type { Compiled, CompiledPolicy } from '../../apis/compiled.ts';
import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { EgressConfig } from '../../apis/egress/config.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import type { NodeReport } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { inSlices } from '../../lib/process/in-slices.ts';
import { Lane } from '../../lib/process/lane.ts';
import type { Log } from '../../lib/process/log.ts';
import { present } from '../../lib/sharing/present.ts';
import type { Stepwise } from '../../lib/sharing/stepwise.ts';
import { compiler } from '../compile/compile.ts';
import type { LeftOutEndpoints } from '../compile/service-set.ts';
import { type CompiledEgress, egressCompiler } from '../egress/compile-egress.ts';
import { nodeEgressCompiler } from '../egress/node-egress.ts';
import { apiServerEndpoints, clusterDnsEndpoints, lastKnownApiServer } from '../publish/endpoints.ts';
import type { Hub } from '../publish/hub.ts';
import { type IgnoredAddresses, NONE_IGNORED } from '../publish/node-view-object.ts';
import type { ControllerPod } from '../replicas/controller-pods.ts';
import type { RolloutKeeper } from '../rollout/keeper.ts';
import type { NodeVersions } from '../rollout/node-versions.ts';
import type { StatusKeeper } from '../status/keeper.ts';
import type { NodeEvent } from '../status/node-events.ts';
import type { Snapshot } from '../watch/source.ts';
import type { ControllerMetrics } from './controller-metrics.ts';
import type { PolicyStatuses } from './policy-statuses.ts';
import { ReportedAddresses } from './reported-addresses.ts';

export interface CompilingOptions {
  readonly hub: Pick<Hub, 'prepare' | 'setEndpoints' | 'revision'>;
  readonly statuses: Pick<StatusKeeper, 'publish'>;
  /** Which node gets which version of a policy. */
  readonly rollouts?: {
    readonly versions: Pick<NodeVersions, 'on'>;
    readonly keeper: Pick<RolloutKeeper, 'publish'>;
  };
  /** Egress gateways; absent: their feature gate is off. */
  readonly egress?: {
    readonly config: EgressConfig;
    readonly statuses: Pick<PolicyStatuses, 'publishEgress'>;
  };
  readonly metrics: Pick<ControllerMetrics, 'compiled' | 'published' | 'failed' | 'delayed'>;
  readonly log: Log;
  readonly clock: Clock;
  /** As configured; absent: every address counts. */
  readonly nodeCIDRs?: readonly string[];
  /** Networks of pods of the configuration; absent: none. */
  readonly podCIDRs?: readonly string[];
  /** Writes an Event on a Node; absent: nobody does. */
  readonly nodeEvent?: (node: string, event: NodeEvent) => void;
  readonly compiler?: typeof compiler;
  /** Logs the problems of a snapshot. */
  readonly sayProblems: (snapshot: Snapshot) => void;
  /** Called after each published snapshot. */
  readonly published: () => void;
}

/**
 * Compiles each snapshot of the cluster, together with the agents' reports, and publishes the
 * result: one after the other, and in slices, between which the controller serves everybody. What
 * is published, and what others read of it here, changes at once.
 */
export class Compiling {
  readonly #options: CompilingOptions;
  readonly #compiler: typeof compiler;
  readonly #withApiServer = lastKnownApiServer();
  readonly #reported: ReportedAddresses;
  readonly #lane = new Lane();
  #compile: ReturnType<typeof compiler>;
  #compileEgress: ((objects: ClusterObjects) => Stepwise<PublishedEgress>) | null;
  #snapshot: Snapshot | null = null;
  #policies: readonly CompiledPolicy[] = [];
  #objects: ClusterObjects | null = null;
  #ignored: ReadonlyMap<string, IgnoredAddresses> = new Map();
  #mostLeftOut = 0;
  #leftOutEndpoints: LeftOutEndpoints = new Map();
  /** The Services that the log named. */
  readonly #saidServices = new Set<string>();
  /** The namespaces that the log named. */
  readonly #crowded = new Set<string>();

  constructor(options: CompilingOptions) {
    this.#options = options;
    this.#compiler = options.compiler ?? compiler;
    this.#compile = this.#compiler();
    this.#compileEgress = toEgressCompiler(options);
    const { log, clock, metrics, nodeCIDRs = [], podCIDRs, nodeEvent: event } = options;
    this.#reported = new ReportedAddresses({
      log,
      clock,
      nodeCIDRs,
      podCIDRs,
      changed: () => this.useReports(),
      delayed: () => metrics.delayed(),
      ...present({ event }),
    });
  }

  /** The last published snapshot; null before the first. */
  get snapshot(): Snapshot | null {
    return this.#snapshot;
  }

  /** The last published objects as they were compiled, with what agents reported; null before. */
  get objects(): ClusterObjects | null {
    return this.#objects;
  }

  /** The last published policies. */
  get policies(): readonly CompiledPolicy[] {
    return this.#policies;
  }

  /** Whether agents were sent the addresses that this controller's pod has now. */
  isPublished({ name, addresses }: ControllerPod): boolean {
    const pods = this.#snapshot?.objects.pods.filter((pod) => pod.name === name) ?? [];
    return pods.some(
      (pod) => pod.namespace === CONTROLLER_ACCOUNT.namespace && isDeepStrictEqual(pod.addresses, addresses),
    );
  }

  /** Some Services, NAMESPACE/NAME, of which endpoints do not count, as no pod has them. */
  get leftOutServices(): readonly string[] {
    return [...this.#leftOutEndpoints.keys()].sort().slice(0, MOST_SAID);
  }

  /** The addresses of the Node object that do not count. */
  ignoredAddresses(node: string): IgnoredAddresses {
    return this.#ignored.get(node) ?? NONE_IGNORED;
  }

  receiveReport(report: NodeReport): void {
    this.#reported.receive(report);
  }

  /** Publishes a state with all reports so far, if there is one. */
  useReports(): Promise<void> {
    return this.#lane.run(async () => {
      if (this.#snapshot !== null) await this.#deliver(this.#snapshot, () => {});
    });
  }

  /** @param publishes called when the snapshot is about to be what is published */
  deliver(next: Snapshot, publishes: () => void = () => {}): Promise<void> {
    return this.#lane.run(() => this.#deliver(next, publishes));
  }

  /** Waits for what is being compiled. */
  async close(): Promise<void> {
    await this.#reported.close();
    await this.#lane.run(async () => {});
  }

  async #deliver(next: Snapshot, publishes: () => void): Promise<void> {
    const { log, metrics, clock, sayProblems, published } = this.#options;
    sayProblems(next);
    for (let isRetry = false; ; isRetry = true) {
      try {
        const started = clock.now();
        const prepared = await inSlices(this.#prepare(next), clock);
        publishes();
        this.#publish(next, prepared, started);
        break;
      } catch (error) {
        metrics.failed();
        // The compiler's state may be inconsistent now: starts from scratch, once.
        this.#compile = this.#compiler();
        this.#compileEgress = toEgressCompiler(this.#options);
        const { message, stack } = error as Error;
        log.error('internal error; agents keep the published rules', {
          stage: 'compile',
          error: message,
          stack,
        });
        if (isRetry) return;
      }
    }
    published();
  }

  /** Changes nothing that others read. */
  *#prepare(next: Snapshot): Stepwise<Prepared> {
    const { hub, rollouts } = this.#options;
    const objects = this.#reported.on(this.#withApiServer(next.objects));
    const versions = rollouts?.versions.on(objects) ?? objects;
    yield;
    const egress = this.#compileEgress === null ? null : yield* this.#compileEgress(objects);
    const compiled = { ...this.#compile(versions), ...(egress === null ? {} : { egress: egress.nodes }) };
    yield;
    return { objects, egress, compiled, send: yield* hub.prepare(compiled) };
  }

  #publish(next: Snapshot, { objects, egress, compiled, send }: Prepared, started: number): void {
    const { hub, statuses, rollouts, metrics, clock } = this.#options;
    hub.setEndpoints([...apiServerEndpoints(objects), ...clusterDnsEndpoints(objects)]);
    metrics.published(send());
    const invalid = next.problems.filter(({ severity }) => severity === 'error').length;
    this.#ignored = new Map(
      objects.nodes.flatMap(({ name, ignoredAddresses: outside = [], claimedAddresses: claimed = [] }) =>
        outside.length + claimed.length > 0 ? [[name, { outside, claimed }] as const] : [],
      ),
    );
    const ignoredAddresses = [...this.#ignored.values()].flatMap(({ outside, claimed }) => [
      ...outside,
      ...claimed,
    ]).length;
    const nodes = compiled.nodeAddresses.size;
    const ignoredNetworks = egress?.compiled.inside.leftOut ?? NOTHING;
    this.#sayLeftOut(ignoredNetworks);
    this.#leftOutEndpoints = compiled.leftOutEndpoints;
    this.#sayEndpoints();
    this.#sayCrowded(egress?.compiled.crowded);
    const counts = {
      nodes,
      policies: objects.policies.length,
      invalid,
      ignoredAddresses,
      ignoredEndpoints: [...this.#leftOutEndpoints.values()].flat().length,
      ...(egress === null ? {} : { ignoredNetworks: ignoredNetworks.size }),
    };
    metrics.compiled((clock.now() - started) / 1000, counts);
    statuses.publish(next, compiled, hub.revision);
    rollouts?.keeper.publish(next.objects, compiled.policies);
    if (egress !== null) {
      const {
        problems,
        objects: { egressPolicies: policies },
      } = next;
      this.#options.egress?.statuses.publishEgress({ ...egress, policies, problems });
    }
    this.#snapshot = next;
    this.#objects = objects;
    this.#policies = compiled.policies;
  }

  /** Once for each namespace, until no namespace is crowded. */
  #sayCrowded(crowded = NOBODY): void {
    if (crowded.size === 0) this.#crowded.clear();
    for (const namespace of crowded.values()) {
      if (this.#crowded.has(namespace) || this.#crowded.size >= MOST_SAID) continue;
      this.#crowded.add(namespace);
      const message =
        'the pods of the namespace have too many destinations by its EgressPolicies, and some of them send nothing outside; join policies, or raise egress.namespaceLimits';
      this.#options.log.warn(message, { stage: 'compile', name: namespace });
    }
  }

  /** Once for each Service, until no Service has any. */
  #sayEndpoints(): void {
    if (this.#leftOutEndpoints.size === 0) this.#saidServices.clear();
    for (const [name, addresses] of this.#leftOutEndpoints) {
      if (this.#saidServices.has(name) || this.#saidServices.size >= MOST_SAID) continue;
      this.#saidServices.add(name);
      const message =
        'endpoints of a Service are addresses that no pod of its namespace has; toServices leaves them out; if the Service is right, list it in endpointsWithoutPods';
      const ignored = addresses.slice(0, MOST_SAID);
      this.#options.log.warn(message, { stage: 'compile', name, count: addresses.length, ignored });
    }
  }

  /** Says them again only when there are more than ever: kubelets can change them at will. */
  #sayLeftOut(networks: ReadonlySet<string>): void {
    const { size } = networks;
    if (size <= this.#mostLeftOut) return;
    this.#mostLeftOut = size;
    const message =
      'what Nodes and pods say of themselves is outside of the networks of the cluster, and egress policies hold for it; if it belongs to the cluster, set egress.podCIDRs and nodeCIDRs (docs/egress.md)';
    this.#options.log.warn(message, {
      stage: 'compile',
      count: size,
      ignored: [...networks].slice(0, MOST_SAID),
    });
  }
}

const NOBODY: ReadonlyMap<string, string> = new Map();
const MOST_SAID = 10;
const NOTHING: ReadonlySet<string> = new Set();

/** A state that is compiled, and not published yet. */
interface Prepared {
  readonly objects: ClusterObjects;
  readonly egress: PublishedEgress | null;
  readonly compiled: Compiled;
  /** Sends it to the agents; returns the number of messages. */
  readonly send: () => number;
}

interface PublishedEgress {
  readonly compiled: CompiledEgress;
  readonly nodes: ReadonlyMap<string, NodeEgress>;
}

function toEgressCompiler({
  egress,
  nodeCIDRs = [],
}: CompilingOptions): ((objects: ClusterObjects) => Stepwise<PublishedEgress>) | null {
  if (egress === undefined) return null;
  // An address that is in no status yet might pass to another policy before it is.
  const compile = egressCompiler({ ...egress.config, nodeCIDRs }, 'written');
  const view = nodeEgressCompiler();
  return function* (objects) {
    const compiled = yield* compile.inSteps(objects);
    return { compiled, nodes: yield* view.inSteps(compiled) };
  };
}
