import { EventEmitter } from 'node:events';
import type { NodeReport } from '../../apis/node-report.ts';
import type { GateValue } from '../../apis/stream.ts';
import type { PublishedEgress } from '../egress/egress-compiling.ts';
import type { GateName } from '../kubeapi/configmap/feature-gate.ts';
import type { NodeEvent } from '../status/node-events.ts';
import type { WatchedPolicy } from '../status/policy-versions.ts';
import type { PublishedSnapshot } from './compiling.ts';
import type { LifeEvent } from './lifecycle.ts';

/**
 * By these the assemblies of a controller (view.ts, lead.ts, serve.ts) tell those that are made
 * after them, and the controller's life cycle, what happened. Listeners are called at once, in the
 * order in which the assemblies are made.
 */
export interface ControllerEvents {
  life: [event: LifeEvent];
  published: [state: PublishedSnapshot];
  /** The part of that state with egress gateways; told before it. */
  egressPublished: [state: PublishedEgress];
  /** A feature gate of the cluster has another value. */
  gate: [name: GateName, value: GateValue];
  /** The other controllers, or the state of the namespace, changed. */
  replicas: [];
  /** The last leader has given the Lease up. */
  leaseReleased: [];
  /** A report counts now; `before`: the last one of the same node, null: it is the first. */
  reported: [report: NodeReport, before: NodeReport | null];
  /** Something has to be said of a Node. */
  nodeEvent: [node: string, event: NodeEvent];
  /** A policy of nodewall.io, as it is stored. */
  policyVersion: [before: WatchedPolicy | null, now: WatchedPolicy | null];
}

export class ControllerBus extends EventEmitter<ControllerEvents> {
  life(event: LifeEvent): void {
    this.emit('life', event);
  }
}
