import { CONTROLLER_PORT, WEBHOOK_PORT } from '../../apis/control-plane.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { InwardProbing } from '../probes/inward-probing.ts';
import { PeerQuestions, type ProberStreams } from '../probes/peer-questions.ts';
import { apiServerEndpoints } from '../publish/endpoints.ts';
import type { AgentService } from './agent-service.ts';
import type { Compiling } from './compiling.ts';
import type { ControllerContext, ProcessContext } from './controller-context.ts';
import type { OtherControllers } from './peers.ts';

interface ProbingOptions {
  readonly context: ControllerContext;
  readonly process: Pick<ProcessContext, 'clock' | 'random'>;
  readonly agents: () => Pick<AgentService, 'probers' | 'sendProbe'>;
  readonly compiling: Pick<Compiling, 'snapshot'>;
  readonly peers: Pick<OtherControllers, 'probes'>;
  readonly isLeader: () => boolean;
  /** The ServiceAccount's: this controller's name where its pod is not known. */
  readonly account: string;
}

/**
 * The probes of guarded apply that come to a node from outside: from controllers, and from nodes.
 */
export function controllerProbing(options: ProbingOptions): InwardProbing {
  const { context, process, agents, compiling, peers, isLeader, account } = options;
  const { clock, random } = process;
  const streams: ProberStreams = {
    probers: () => agents().probers(),
    send: (node, update) => agents().sendProbe(node, update),
  };
  const addressesOf = (node: string): readonly string[] =>
    compiling.snapshot?.objects.nodes.find(({ name }) => name === node)?.addresses ?? [];
  return new InwardProbing({
    probes: context.config.guard.inward,
    addressesOf,
    ownPort(name, node) {
      if (name === 'to-controller') return CONTROLLER_PORT;
      if (name === 'to-webhook') return WEBHOOK_PORT;
      return apiServerPort(compiling.snapshot?.objects ?? null, addressesOf(node));
    },
    isLeader,
    self: context.options.podName ?? account,
    questions: new PeerQuestions({ streams, clock, random }),
    elsewhere: peers.probes,
  });
}

/** The port of the API server that serves at one of these addresses; null: none does. */
function apiServerPort(objects: ClusterObjects | null, addresses: readonly string[]): number | null {
  const endpoints = objects === null ? [] : apiServerEndpoints(objects);
  return endpoints.find((one) => one.addresses.some((text) => addresses.includes(text)))?.port ?? null;
}
