import type { FailingNode, PolicyCondition, PolicyPhase, PolicyStatus } from '../../apis/policy-status.ts';
import { utcText, type WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { orNull } from '../kubeapi/kube-error.ts';

/** The `status` of a ClusterNetworkPolicy of crd.antrea.io/v1beta1. */
export interface AntreaStatus {
  readonly phase: Extract<PolicyPhase, 'Pending' | 'Realizing' | 'Realized' | 'Failed'>;
  readonly observedGeneration: number;
  readonly currentNodesRealized: number;
  readonly desiredNodesRealized: number;
  readonly conditions: readonly AntreaCondition[];
}

interface AntreaCondition {
  /** RealizationFailure is there only while nodes fail. */
  readonly type: 'Realizable' | 'RealizationFailure';
  readonly status: 'True' | 'False';
  /** When `status` last changed: ISO 8601, UTC, to the second. */
  readonly lastTransitionTime: string;
  readonly reason?: string;
  readonly message?: string;
}

/** The fields that the statuses of both API groups have. */
export interface WrittenStatus
  extends Pick<
    PolicyStatus,
    'phase' | 'observedGeneration' | 'currentNodesRealized' | 'desiredNodesRealized'
  > {
  readonly conditions: readonly Pick<
    PolicyCondition | AntreaCondition,
    'type' | 'status' | 'lastTransitionTime'
  >[];
}

/** Characters: Antrea's limit of a condition's message, before the dots. */
const LONGEST_MESSAGE = 256;

/**
 * The status that Antrea's controller would write of a policy with this status: Pending is a
 * version that is not to be enforced, Realized one that all of its nodes enforce, of no node too,
 * and Failed one that fails on all others.
 * @param failing as those of Progress
 * @param before the present status; unchanged conditions keep their times
 */
export function toAntreaStatus(
  { phase, observedGeneration, currentNodesRealized, desiredNodesRealized, conditions }: PolicyStatus,
  failing: readonly FailingNode[],
  before: Pick<WrittenStatus, 'conditions'> | null,
  now: Date,
): AntreaStatus {
  const condition = (
    type: AntreaCondition['type'],
    status: AntreaCondition['status'],
    said: Pick<AntreaCondition, 'reason' | 'message'>,
  ): AntreaCondition => {
    const last = before?.conditions?.find((one) => one.type === type);
    const time = utcText(now);
    const lastTransitionTime = last?.status === status ? last.lastTransitionTime : time;
    return { type, status, lastTransitionTime, ...said };
  };
  const why = conditions.find(({ type, status }) => type === 'Accepted' && status !== 'True');
  const off = phase === 'Disabled' ? conditions.find(({ type }) => type === 'Realized') : undefined;
  const unrealizable = why ?? off;
  if (unrealizable !== undefined) {
    const { reason, message } = unrealizable;
    const realizable = condition('Realizable', 'False', { reason, message: short(message) });
    const none = { currentNodesRealized: 0, desiredNodesRealized: 0 };
    return { phase: 'Pending', observedGeneration, ...none, conditions: [realizable] };
  }
  const failed = new Map(failing.toReversed().map(({ node, reason }) => [node, reason]));
  const nodes = [...failed].sort().map(([node, reason]) => `"${node}":"${reason}"`);
  const failure = {
    reason: 'NetworkPolicyRealizationFailedOnNode',
    message: short(`Failed Nodes count ${nodes.length}: ${nodes.join(', ')}`),
  };
  const isRealized = currentNodesRealized === desiredNodesRealized;
  const isFailed = failed.size > 0 && currentNodesRealized + failed.size >= desiredNodesRealized;
  return {
    phase: isRealized ? 'Realized' : isFailed ? 'Failed' : 'Realizing',
    observedGeneration,
    currentNodesRealized,
    desiredNodesRealized,
    conditions: [
      condition('Realizable', 'True', {}),
      ...(failed.size === 0 ? [] : [condition('RealizationFailure', 'True', failure)]),
    ],
  };
}

function short(text: string): string {
  return text.length <= LONGEST_MESSAGE ? text : `${text.slice(0, LONGEST_MESSAGE)}...`;
}

interface AntreaControllerOptions {
  readonly request: KubeApi;
  readonly clock: WallClock;
  readonly log: Log;
  /** Whether there are policies of crd.antrea.io. */
  readonly isNeeded: () => boolean;
  /** Called when it changes whether nodewall writes the statuses of these policies. */
  readonly changed: (isAbsent: boolean) => void;
}

/** Between two looks (milliseconds). */
const LOOK = 15_000;
/** How long a heartbeat counts (milliseconds): Antrea's controller writes one a minute. */
const BEATS = 180_000;
const API = '/apis/crd.antrea.io/v1beta1';
const DEPLOYMENT = '/apis/apps/v1/namespaces/kube-system/deployments/antrea-controller';
const INFO = `${API}/antreacontrollerinfos/antrea-controller`;

interface ResourceList {
  readonly resources?: readonly { readonly name: string }[];
}
/** Antrea's AntreaControllerInfo, in place of a Lease. */
interface ControllerInfo {
  readonly controllerConditions?: readonly { readonly lastHeartbeatTime?: string }[];
}

/**
 * Finds out, while this process leads, whether a controller of Antrea runs: that one writes the
 * statuses of its policies. While it is not known, it counts as running.
 */
export class AntreaController {
  readonly #options: AntreaControllerOptions;
  #isAbsent = false;
  /** The end of the present leadership; null: this process does not lead. */
  #led: AbortController | null = null;
  /** Cancels the next look. */
  #cancel = (): void => {};
  #failure: string | null = null;
  /** The heartbeats of the last look; null: there was none in this leadership. */
  #beats: string | null = null;
  /** When they were others than in the look before (monotonic milliseconds). */
  #changed = Number.NEGATIVE_INFINITY;

  constructor(options: AntreaControllerOptions) {
    this.#options = options;
  }

  lead(leads: boolean): void {
    if (leads === (this.#led !== null)) return;
    this.#led?.abort();
    this.#cancel();
    this.#led = null;
    this.#set(false);
    this.#beats = null;
    this.#changed = Number.NEGATIVE_INFINITY;
    this.#led = leads ? new AbortController() : null;
    if (this.#led !== null) void this.#poll(this.#led.signal);
  }

  async #poll(ended: AbortSignal): Promise<void> {
    const isAbsent = this.#options.isNeeded() && (await this.#findAbsent());
    if (ended.aborted) return;
    this.#set(isAbsent);
    this.#cancel = this.#options.clock.after(LOOK, () => void this.#poll(ended));
  }

  #set(isAbsent: boolean): void {
    if (isAbsent === this.#isAbsent) return;
    this.#isAbsent = isAbsent;
    if (this.#led !== null)
      this.#options.log.info(isAbsent ? 'no controller of Antrea runs' : 'a controller of Antrea runs', {
        stage: 'status',
        writesItsStatuses: isAbsent,
      });
    this.#options.changed(isAbsent);
  }

  /** Whether no controller of Antrea runs, and the policies have a status that can be written. */
  async #findAbsent(): Promise<boolean> {
    try {
      const { resources = [] } = (await this.#get<ResourceList>(API)) ?? {};
      const names = new Set(resources.map(({ name }) => name));
      if (!names.has('clusternetworkpolicies/status')) return false;
      const deployment = await this.#get<{ readonly spec?: { readonly replicas?: number } }>(DEPLOYMENT);
      const info = names.has('antreacontrollerinfos') ? await this.#get<ControllerInfo>(INFO) : null;
      this.#failure = null;
      const isBeating = this.#isBeating(info);
      return (deployment === null || deployment.spec?.replicas === 0) && !isBeating;
    } catch (error) {
      this.#say(messageOf(error));
      return false;
    }
  }

  #get<T>(path: string): Promise<T | null> {
    return orNull(this.#options.request<T>({ method: 'GET', path }));
  }

  /** By the clocks, or because one came between two looks: the clocks of nodes may differ. */
  #isBeating(info: ControllerInfo | null): boolean {
    const { clock } = this.#options;
    const beats = info?.controllerConditions?.map(({ lastHeartbeatTime = '' }) => lastHeartbeatTime) ?? [];
    const text = beats.join();
    if (this.#beats !== null && text !== this.#beats) this.#changed = clock.now();
    this.#beats = text;
    if (beats.length > 0 && clock.now() - this.#changed < BEATS) return true;
    // One that is no time counts.
    return beats.some((beat) => !(clock.date().getTime() - Date.parse(beat) >= BEATS));
  }

  /** Each failure once. */
  #say(error: string): void {
    if (error === this.#failure) return;
    this.#failure = error;
    this.#options.log.warn(
      "cannot find out whether Antrea's controller runs; the statuses of policies of crd.antrea.io are not written meanwhile",
      { stage: 'status', error },
    );
  }
}
