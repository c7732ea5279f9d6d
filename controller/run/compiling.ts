import { isDeepStrictEqual } from 'node:util';
import type { Compiled, CompiledPolicy } from '../../apis/compiled.ts';
import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { inSlices } from '../../lib/process/in-slices.ts';
import { Lane } from '../../lib/process/lane.ts';
import type { Log } from '../../lib/process/log.ts';
import { present } from '../../lib/sharing/present.ts';
import type { Stepwise } from '../../lib/sharing/stepwise.ts';
import { compiler } from '../compile/compile.ts';
import type { LeftOutEndpoints } from '../compile/service-set.ts';
import type { CompileExtension, ExtendedCompile } from '../extension/extension.ts';
import { type IgnoredAddresses, NONE_IGNORED } from '../publish/api-objects.ts';
import { apiServerEndpoints, clusterDnsEndpoints, lastKnownApiServer } from '../publish/endpoints.ts';
import type { Hub } from '../publish/hub.ts';
import type { ControllerPod } from '../replicas/replicas.ts';
import type { NodeVersions } from '../rollout/node-versions.ts';
import type { NodeEvent } from '../status/node-events.ts';
import type { Snapshot } from '../watch/source.ts';
import type { ControllerMetrics } from './controller-metrics.ts';
import { ReportedAddresses } from './reported-addresses.ts';

/** A state of the cluster that was compiled, and sent to the agents. */
export interface PublishedSnapshot {
  readonly snapshot: Snapshot;
  readonly compiled: Compiled;
  readonly revision: string;
}

interface CompilingOptions {
  readonly hub: Pick<Hub, 'prepare' | 'setEndpoints' | 'revision'>;
  /** Which node gets which version of a policy. */
  readonly versions?: Pick<NodeVersions, 'on'>;
  /** Null or absent: its feature gate is off. */
  readonly extension?: CompileExtension | null;
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
  /** Called with each state that is published, when others can read it here. */
  readonly published: (state: PublishedSnapshot) => void;
  /** Called after that; what it throws is no error of compiling. */
  readonly delivered?: () => void;
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
  #snapshot: Snapshot | null = null;
  #policies: readonly CompiledPolicy[] = [];
  #objects: ClusterObjects | null = null;
  #ignored: ReadonlyMap<string, IgnoredAddresses> = new Map();
  #leftOutEndpoints: LeftOutEndpoints = new Map();
  /** The Services that the log named. */
  readonly #saidServices = new Set<string>();

  constructor(options: CompilingOptions) {
    this.#options = options;
    this.#compiler = options.compiler ?? compiler;
    this.#compile = this.#compiler();
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
    const { log, metrics, clock, sayProblems } = this.#options;
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
        this.#options.extension?.restart();
        const { message, stack } = error as Error;
        log.error('internal error; agents keep the published rules', {
          stage: 'compile',
          error: message,
          stack,
        });
        if (isRetry) return;
      }
    }
    this.#options.delivered?.();
  }

  /** Changes nothing that others read. */
  *#prepare(next: Snapshot): Stepwise<Prepared> {
    const { hub, extension } = this.#options;
    const objects = this.#reported.on(this.#withApiServer(next.objects));
    const versions = this.#options.versions?.on(objects) ?? objects;
    yield;
    const extended = extension == null ? null : yield* extension.compile(objects);
    const compiled = { ...this.#compile(versions), ...extended?.part };
    yield;
    return { objects, extended, compiled, send: yield* hub.prepare(compiled) };
  }

  #publish(next: Snapshot, { objects, extended, compiled, send }: Prepared, started: number): void {
    const { hub, metrics, clock, published } = this.#options;
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
    this.#leftOutEndpoints = compiled.leftOutEndpoints;
    this.#sayEndpoints();
    const counts = {
      nodes,
      policies: objects.policies.length,
      invalid,
      ignoredAddresses,
      ignoredEndpoints: [...this.#leftOutEndpoints.values()].flat().length,
      ...(extended === null ? {} : { ignoredNetworks: extended.ignoredNetworks }),
    };
    metrics.compiled((clock.now() - started) / 1000, counts);
    this.#snapshot = next;
    this.#objects = objects;
    this.#policies = compiled.policies;
    extended?.published(next);
    published({ snapshot: next, compiled, revision: hub.revision });
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
}

const MOST_SAID = 10;

/** A state that is compiled, and not published yet. */
interface Prepared {
  readonly objects: ClusterObjects;
  readonly extended: ExtendedCompile | null;
  readonly compiled: Compiled;
  /** Sends it to the agents; returns the number of messages. */
  readonly send: () => number;
}
