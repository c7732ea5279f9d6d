import type { KubeConfig } from '@kubernetes/client-node';
import { type Config, DEFAULT_CONFIG } from '../../../apis/config.ts';
import {
  type ClusterObject,
  type ClusterObjects,
  type EndpointSlice,
  type Namespace,
  NO_OBJECTS,
  type Node,
  type Pod,
  type Service,
} from '../../../apis/objects.ts';
import { displayName } from '../../../apis/validate/metadata.ts';
import type { ValidateOptions } from '../../../apis/validate/object.ts';
import { formatPath } from '../../../apis/validate/problem.ts';
import { Debounce, type DebounceTimes } from '../../../lib/process/timers.ts';
import { sameItems } from '../../../lib/sharing/lists.ts';
import { OBJECT_EXTENSION } from '../../extension/objects.ts';
import { compareProblems } from '../assemble.ts';
import { LIST_OF_KIND } from '../content.ts';
import { sameValue } from '../keep-objects.ts';
import type { LoadProblem, ObjectSource, Snapshot } from '../source.ts';
import { Documents, documenting } from './documents.ts';
import type { StoreChange, WatchPosition } from './object-store.ts';
import { type Reflector, reflector } from './reflector.ts';
import {
  ANTREA,
  BUILT_IN,
  egressResources,
  GUARDRAIL,
  isOfTenants,
  isOwn,
  NODEWALL_API,
  type Resource,
} from './resources.ts';
import { sortedList } from './sorted-list.ts';
import { narrowing, objectOf, problemsOf, type StoredObject } from './stored-object.ts';
import { TenantTurns } from './tenant-turns.ts';
import { type ApiTransport, apiTransport } from './transport.ts';
import { WATCH_TIMES, type WatchMetrics, type WatchNotice, type WatchTimes } from './watch-failures.ts';

export interface ClusterSourceOptions extends ValidateOptions, Partial<DebounceTimes> {
  /** Its current context has the API server and the credentials. */
  readonly kubeConfig: KubeConfig;
  /** Receives events of the connections, for the log. */
  readonly onNotice?: (notice: WatchNotice) => void;
  readonly times?: Partial<WatchTimes>;
  /** Returns numbers from 0 to 1. */
  readonly random?: () => number;
}

/**
 * @param publishes to be called when the snapshot becomes what others see, at the latest when the
 * promise is kept: watches have come so far then
 */
export type Deliver = (snapshot: Snapshot, publishes: () => void) => void | Promise<void>;

/**
 * The objects of a cluster, from its API: listed, watched, and delivered again after every change.
 * An object that becomes invalid keeps its last valid version. Unchanged objects and lists are the
 * same JavaScript objects.
 */
export class ClusterSource implements ObjectSource {
  /** Resolves after the first snapshot was delivered; never if the source is closed before that. */
  readonly synced: Promise<void>;
  readonly #settle: () => void;
  readonly #transport: ApiTransport;
  readonly #state: ClusterState;
  readonly #timer: Debounce;
  readonly #own: readonly Reflector[];
  readonly #reflectors: readonly Reflector[];
  /** Those of `#reflectors` whose changes wait for their turn. */
  readonly #ofTenants: ReadonlySet<Reflector>;
  readonly #turns: TenantTurns;
  #isTurn = false;
  #deliver: Deliver = () => undefined;
  #snapshot: Snapshot | null = null;
  /** When the published snapshot was made. */
  #positions: readonly WatchPosition[] = [];
  /** Whether events came since the last snapshot that changed something. */
  #isPending = false;
  /** Resolves when the last snapshot is published; null: it is. */
  #delivery: Promise<void> | null = null;

  constructor(options: ClusterSourceOptions) {
    const { quiet = 15, longest = 100 } = options;
    this.#transport = apiTransport(options.kubeConfig);
    this.#state = clusterState(options);
    ({ promise: this.synced, resolve: this.#settle } = Promise.withResolvers<void>());
    this.#timer = new Debounce(() => this.#publishListed(), { quiet, longest });
    this.#turns = new TenantTurns({ quiet, due: () => void this.#publishAll() });
    const documented = [...NODEWALL_API, ...ANTREA, GUARDRAIL, ...egressResources(options)].map(
      (resource) => {
        return { resource, of: this.#documented(resource, options) };
      },
    );
    // Nothing names a Guardrail, and its CustomResourceDefinition may be missing after an upgrade.
    const isNamed = (resource: Resource): boolean => isOwn(resource) && resource !== GUARDRAIL;
    this.#own = documented.flatMap(({ resource, of }) => (isNamed(resource) ? [of] : []));
    this.#reflectors = [
      ...BUILT_IN.map((resource) => this.#builtIn(resource, options)),
      ...documented.map(({ of }) => of),
    ];
    this.#ofTenants = new Set(documented.flatMap(({ resource, of }) => (isOfTenants(resource) ? [of] : [])));
  }

  /**
   * Starts, and returns at once. The first snapshot is delivered when every resource has been
   * listed; it is complete, as are all later ones. Part of a cluster is never delivered, because
   * policies would be rejected for references to objects that are not listed yet. The next one
   * waits until `deliver` has ended.
   */
  async start(receiver: Deliver): Promise<void> {
    this.#deliver = receiver;
    for (const one of this.#reflectors) one.start();
  }

  async close(): Promise<void> {
    await Promise.all(this.#reflectors.map((one) => one.close()));
    await this.#timer.close();
    this.#turns.close();
    this.#transport.close();
  }

  /**
   * Whether tiers, groups and policies are those of the API server; false while a watch of them is
   * broken, or was only just restored.
   */
  isCurrent(): boolean {
    return this.#own.every((one) => one.isCurrent());
  }

  /** Proves all watches; the snapshot of what they received has been delivered then. */
  async prove(): Promise<void> {
    await Promise.all(this.#reflectors.map((one) => one.prove()));
    await this.#publishAll();
  }

  /** Resolves when the snapshot of what was received so far has been delivered. */
  async flush(): Promise<void> {
    if (this.#isPending) await this.#timer.now();
    else await this.#delivery;
  }

  /**
   * How far each watch had come when the published snapshot was made, or now if no later event
   * changed anything. In the same order in every controller.
   */
  positions(): readonly WatchPosition[] {
    return this.#isPending || this.#delivery !== null ? this.#positions : this.#reached();
  }

  #reached(): readonly WatchPosition[] {
    // Changes that wait for their turn are in no snapshot yet.
    const isBehind = (one: Reflector): boolean => this.#turns.isWaiting && this.#ofTenants.has(one);
    return this.#reflectors.map((one, i) => (isBehind(one) && this.#positions[i]) || one.position());
  }

  /** One element for each resource. */
  metrics(): readonly WatchMetrics[] {
    return this.#reflectors.map((one) => one.metrics());
  }

  /** With what waits for its turn. */
  #publishAll(): Promise<void> {
    this.#isTurn = true;
    return this.#timer.now();
  }

  async #publishListed(): Promise<void> {
    if (!this.#reflectors.every((one) => one.isListed())) return;
    const isTurn = this.#isTurn;
    this.#isTurn = false;
    if (isTurn) await this.#turns.run(() => this.#publish());
    else await this.#publish();
  }

  async #publish(): Promise<void> {
    const next = this.#state.snapshot(this.#snapshot);
    this.#isPending = false;
    const reached = this.#reached();
    const { promise, resolve } = Promise.withResolvers<void>();
    const publishes = (): void => {
      this.#delivery = null;
      this.#positions = reached;
      resolve();
    };
    if (next === this.#snapshot) {
      publishes();
      return;
    }
    this.#snapshot = next;
    this.#delivery = promise;
    await this.#deliver(next, publishes);
    publishes();
    this.#settle();
  }

  #changed(): void {
    this.#isPending = true;
    this.#timer.trigger();
  }

  #builtIn(resource: Resource, options: ClusterSourceOptions): Reflector {
    return reflector<StoredObject>({
      ...this.#common(options),
      resource,
      narrow: narrowing(options),
      changed: (changes) => {
        for (const change of changes) this.#state.object(resource, change);
        this.#changed();
      },
    });
  }

  #documented(resource: Resource, options: ClusterSourceOptions): Reflector {
    return reflector({
      ...this.#common(options),
      resource,
      narrow: documenting(resource, options),
      changed: (changes) => {
        const apply = (): void => {
          for (const change of changes) this.#state.documents.change(change);
        };
        // Before the first snapshot nobody else waits.
        if (isOfTenants(resource) && this.#snapshot !== null) this.#turns.add(apply);
        else {
          apply();
          this.#changed();
        }
      },
    });
  }

  #common({ times, random = Math.random, onNotice: notice = () => undefined }: ClusterSourceOptions) {
    return { get: this.#transport.get, times: { ...WATCH_TIMES, ...times }, random, notice };
  }
}

interface ClusterState {
  readonly documents: Documents;
  object(resource: Resource, change: StoreChange<StoredObject>): void;
  /** Returns `before` if nothing changed. */
  snapshot(before: Snapshot | null): Snapshot;
}

function clusterState({
  interfaceGroups,
  egress,
  egressConfig = DEFAULT_CONFIG.egress,
}: ValidateOptions): ClusterState {
  const lists = {
    nodes: sortedList<Node>(),
    namespaces: sortedList<Namespace>(),
    pods: sortedList<Pod>(),
    services: sortedList<Service>(),
    endpointSlices: sortedList<EndpointSlice>(),
  };
  const state = new Documents({ interfaceGroups, namespaceLimits: egressConfig.namespaceLimits });
  /** Problems by object, for objects that have any. */
  const flaws = new Map<string, readonly LoadProblem[]>();
  let problems: readonly LoadProblem[] = [];
  let sources: readonly [readonly LoadProblem[], readonly LoadProblem[], number] = [problems, problems, 0];
  const between = egress === true ? problemsBetween(egressConfig) : () => NO_PROBLEMS;
  /** The number of changes of `flaws`. */
  let flawed = 0;
  return {
    documents: state,
    object({ name, kind }, { key, before, now }) {
      const list = lists[LIST_OF_KIND[kind as ClusterObject['kind']] as keyof typeof lists] as {
        change(a: unknown, b: unknown): void;
      };
      const [was, is]: (ClusterObject | null)[] = [objectOf(before), objectOf(now)];
      if (was !== is) list.change(was, is);
      const said = problemsOf(now);
      if (said === problemsOf(before)) return;
      flawed++;
      if (said.length === 0) flaws.delete(`${name}/${key}`);
      else flaws.set(`${name}/${key}`, said);
    },
    snapshot(before) {
      const services = lists.services.array();
      const { problems: own, waiting, definitions, ...settled } = state.settle(services);
      const objects: ClusterObjects = {
        ...NO_OBJECTS,
        nodes: lists.nodes.array(),
        namespaces: lists.namespaces.array(),
        pods: lists.pods.array(),
        services,
        endpointSlices: lists.endpointSlices.array(),
        ...settled,
      };
      const others = between(objects);
      if (sources[0] !== own || sources[1] !== others || sources[2] !== flawed) {
        sources = [own, others, flawed];
        problems = [...own, ...others, ...[...flaws.values()].flat()].sort(compareProblems);
      }
      const same = before !== null && sameLists(objects, before.objects);
      const isSaid = definitions === before?.definitions && waiting === before.waiting;
      if (same && problems === before.problems && isSaid) return before;
      const all = same ? before.objects : objects;
      return { objects: all, problems, files: 0, complete: true, waiting, definitions };
    },
  };
}

const NO_PROBLEMS: readonly LoadProblem[] = [];

/**
 * The problems of egress gateways and policies that other objects cause. Computed again when one of
 * few kinds changes, apart from statuses: a pod with an address of a pool must not cost a pass over
 * all pods each time.
 */
function problemsBetween(config: Config['egress']): (objects: ClusterObjects) => readonly LoadProblem[] {
  let last: ClusterObjects = NO_OBJECTS;
  let problems = NO_PROBLEMS;
  return (objects) => {
    const before = last;
    last = objects;
    const others = ({ namespaces, insideNetworks }: ClusterObjects) => [namespaces, insideNetworks];
    if (sameItems(others(objects), others(before)) && OBJECT_EXTENSION.isSameForProblems(before, objects))
      return problems;
    const found = OBJECT_EXTENSION.problems(objects, config, new Set()).map(
      ({ object, problem }): LoadProblem => {
        const { path, ...said } = problem;
        return {
          ...said,
          file: '',
          line: 0,
          kind: object.kind,
          name: displayName(object),
          path: formatPath(path),
        };
      },
    );
    if (!sameValue(found, problems)) problems = found;
    return problems;
  };
}

function sameLists(a: ClusterObjects, b: ClusterObjects): boolean {
  return (Object.keys(NO_OBJECTS) as (keyof ClusterObjects)[]).every((list) => a[list] === b[list]);
}
