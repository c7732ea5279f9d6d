import { InwardProbing } from '../probes/inward-probing.ts';
import { PeerQuestions, type ProberStreams } from '../probes/peer-questions.ts';
import type { AgentService } from './agent-service.ts';
import type { Compiling } from './compiling.ts';
import type { ControllerContext, ProcessContext } from './controller-context.ts';
import type { Peers } from './peers.ts';

interface ProbingParts {
  readonly context: ControllerContext;
  readonly process: Pick<ProcessContext, 'clock' | 'random'>;
  readonly agents: () => Pick<AgentService, 'probers' | 'sendProbe'>;
  readonly compiling: Pick<Compiling, 'snapshot'>;
  readonly peers: Pick<Peers, 'probes'>;
  readonly isLeader: () => boolean;
  /** Of the ServiceAccount: this controller's name where its pod is not known. */
  readonly account: string;
}

/**
 * The probes of guarded apply that come to a node from outside: from controllers, and from nodes.
 */
export function controllerProbing(parts: ProbingParts): InwardProbing {
  const { context, process, agents, compiling, peers, isLeader, account } = parts;
  const { clock, random } = process;
  const streams: ProberStreams = {
    probers: () => agents().probers(),
    send: (node, update) => agents().sendProbe(node, update),
  };
  return new InwardProbing({
    probes: context.config.guard.inward,
    addressesOf: (node) =>
      compiling.snapshot?.objects.nodes.find(({ name }) => name === node)?.addresses ?? [],
    isLeader,
    self: context.options.podName ?? account,
    questions: new PeerQuestions({ streams, clock, random }),
    elsewhere: peers.probes,
  });
}
