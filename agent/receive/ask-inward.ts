import { AGENT_CALLS } from '../../apis/calls.ts';
import { INWARD_PATIENCE, type InwardQuestion, type InwardResult } from '../../apis/inward-probe.ts';
import { type Caller, callController } from './call.ts';
import { ControllerError } from './controller-client.ts';

interface AskInwardParts extends Caller {
  /** Ends what is asked. */
  readonly signal: AbortSignal;
}

const NOT_FOUND = 404;
const EARLIER = 'the controller is of an earlier version, which makes no probes to nodes';

/** Asks the controller for connections to this node. Rejects if it has no answer in time. */
export async function askInward(
  parts: AskInwardParts,
  question: InwardQuestion,
): Promise<readonly InwardResult[]> {
  const { signal } = parts;
  const patience = question.milliseconds + INWARD_PATIENCE.onTheWay;
  try {
    const options = { signal, patience, isStream: true };
    const { results } = await callController(parts, AGENT_CALLS.probes, question, options);
    return results;
  } catch (error) {
    if (error instanceof ControllerError && error.status === NOT_FOUND)
      return question.probes.map(({ name }) => ({ name, notMade: EARLIER }));
    throw error;
  }
}
