import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Enforced } from '../apply/enforcer.ts';
import type { EndSummary, ResetConnection } from '../connections/end-connections.ts';
import type { DataplaneExtension } from '../dataplane/dataplane.ts';
import type { Destination } from '../receive/destinations.ts';
import type { Authorities } from '../receive/https-call.ts';
import type { AgentMetrics } from '../run/agent-metrics.ts';
import type { Layer, PassOn } from '../run/layers.ts';

/** Known before the agent runs. */
export interface PrepareOptions {
  readonly stateDir: string;
  readonly config: Config;
  readonly log: Log;
}

/** An extension of an agent, before the agent enforces anything. */
export interface PreparedExtension {
  /** The key of this node that other nodes need, as text; null: it has none. */
  readonly publicKey: string | null;
  /**
   * Called each time that the agent begins to enforce, before anything is in the kernel. Null: its
   * feature gate is off, or the machine cannot have it.
   */
  open(context: ExtensionContext): Promise<AgentExtension | null>;
}

/** The parts of an agent that an extension uses. */
export interface ExtensionContext {
  readonly options: { readonly node: string; readonly stateDir: string; readonly once: boolean };
  readonly config: Config;
  readonly log: Log;
  readonly clock: WallClock;
  readonly metrics: AgentMetrics;
  readonly saved: ExtensionStore;
  /** It lacks this in the kernel from now on. */
  readonly lacks: (problems: readonly string[]) => void;
  /** The gateways that this node finds it cannot serve, with the reason. */
  readonly unready: (reasons: ReadonlyMap<string, string>) => void;
}

/** The values that an extension keeps for the next run. */
interface ExtensionStore {
  /** The state that the last run had in force. */
  readState(): Promise<NodeState | null>;
  readExtension(): Promise<unknown>;
  extension(memory: unknown): void;
}

/** An agent's side of a cluster. */
export interface ClusterContext {
  readonly controller: { readonly url: URL; readonly tokenFile: string };
  readonly authorities: Authorities;
  readonly addresses: () => readonly string[];
  readonly replicas: () => readonly Destination[];
}

/** An extension from the begin of enforcement to its end. The calls come in this order. */
export interface AgentExtension {
  readonly dataplane: DataplaneExtension;
  /** The layer that adds to states what this node finds. */
  layer(next: PassOn): Promise<Layer & { close(): Promise<void> }>;
  /** The dataplane runs, and nothing is in force. */
  start(): Promise<void>;
  /** In a cluster only. */
  join(cluster: ClusterContext): Promise<void>;
  /** The controller's view; it is not in force yet. */
  viewed(state: NodeState): void;
  /** Called before the layer's `enforced`. */
  enforced(result: Enforced): void;
  /** @param inTurn passes over the connections run one after another */
  connections(inTurn: <T>(pass: () => Promise<T>) => Promise<T>): ExtendedConnections;
  /**
   * While the rules are enforced still: they may be removed next.
   * @param isLast the process ends, and the rules stay
   */
  leave(isLast: boolean): Promise<void>;
  close(): Promise<void>;
}

/** A pass over the connections of an extension. */
export interface ExtendedPass {
  readonly isDryRun: boolean;
  /** Whether a connection may end; absent: all may. */
  readonly only?: (connection: ResetConnection) => boolean;
  readonly signal: AbortSignal;
  readonly ended: (connection: ResetConnection) => void | Promise<void>;
}

/** Connections that end by rules of an extension. */
export interface ExtendedConnections {
  /** A state is in force. Returns whether connections that are open may have to end. */
  enforced(state: NodeState): boolean;
  /** A third party changed the rules; they are put back. */
  drifted(differences: readonly string[]): void;
  /** Whether a policy in force ends connections that began before it. */
  rechecks(): boolean;
  recheck(signal: AbortSignal): Promise<void>;
  /** Those that began without the rules in force; null: these have nothing of the extension. */
  flush(pass: ExtendedPass): Promise<EndSummary | null>;
  /** Names of policies whose connections can be ended. */
  policies(): ReadonlySet<string>;
  reset(policy: string, pass: ExtendedPass): Promise<EndSummary>;
  close(): void;
}
