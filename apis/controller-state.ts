/**
 * The state of the controllers: for users at `controllers`, for each other below `controllerstate`.
 * Nodes and their objects are not in it.
 */
import { checked, object, text } from './schema/shape.ts';
import { CONTROL_PLANE, type GateValue } from './stream.ts';

const ROOT = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}`;

/** Where users get the state of all controllers (GET ControllerList). */
export const CONTROLLERS_PATH = `${ROOT}/controllers`;

/** The state of one controller. Times are ISO 8601. */
export interface ControllerState {
  /** Name of its pod; without one HOST:PORT. */
  readonly name: string;
  readonly version: string;
  readonly nodejs: string;
  readonly time: string;
  /** The process's, in seconds. */
  readonly uptime: number;
  /** Bytes. */
  readonly memory: { readonly rss: number; readonly heapUsed: number };
  readonly isLeading: boolean;
  readonly isStopping: boolean;
  /** Rights of RBAC that it lacks now. */
  readonly missingRights: readonly string[];
  /** Null: not known yet. */
  readonly gates: Readonly<Record<string, GateValue | null>>;
  /** The revision of the state that is published. */
  readonly revision: string;
  /** Agents that are connected to it. */
  readonly streams: number;
  /** The other controllers that it knows, HOST:PORT each. */
  readonly others: readonly string[];
  readonly certificateExpires: string | null;
  readonly statusesWaiting: number;
  /**
   * Services of toServices, NAMESPACE/NAME, with endpoints that no pod has; some of many. An older
   * controller does not say it.
   */
  readonly leftOutServices?: readonly string[];
  /** Each resource that it lists and watches. */
  readonly watches: readonly ControllerWatch[];
  /** Prometheus' text format: what `/metrics` has. */
  readonly metrics: string;
}

interface ControllerWatch {
  readonly resource: string;
  readonly state: string;
  readonly objects: number;
  readonly lists: number;
  readonly watches: number;
  readonly events: number;
  readonly corrections: number;
  /** By reason. */
  readonly failures: Readonly<Record<string, number>>;
  readonly lastEvent: string | null;
}

/** A controller, or the reason why there is no answer of it. */
export type ControllerItem = {
  readonly metadata: { readonly name: string };
} & ({ readonly state: ControllerState } | { readonly problem: string });

export interface ControllerList {
  readonly kind: 'ControllerList';
  readonly apiVersion: string;
  readonly metadata: Readonly<Record<string, never>>;
  /** The one that answers first. */
  readonly items: readonly ControllerItem[];
}

/** As another controller sent it, of whatever version. Throws InvalidError. */
export function parseControllerState(value: unknown): ControllerState {
  return checked(object({ name: text(), version: text() }), value, 'its state') as object as ControllerState;
}
