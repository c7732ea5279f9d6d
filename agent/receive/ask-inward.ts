import {
  INWARD_PATIENCE,
  type InwardQuestion,
  type InwardResult,
  inwardProbesPath,
  MOST_PROBES_BODY,
  parseInwardAnswer,
} from '../../apis/inward-probe.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type ControllerClient, ControllerError } from './controller-client.ts';
import { bodyText } from './https-call.ts';

interface AskInwardParts {
  readonly node: string;
  readonly client: ControllerClient;
  readonly clock: Clock;
  /** Ends what is asked. */
  readonly signal: AbortSignal;
}

const NOT_FOUND = 404;
const EARLIER = 'the controller is of an earlier version, which makes no probes to nodes';

/** Asks the controller for connections to this node. Rejects if it has no answer in time. */
export async function askInward(
  { node, client, clock, signal }: AskInwardParts,
  question: InwardQuestion,
): Promise<readonly InwardResult[]> {
  const late = new AbortController();
  const longest = question.milliseconds + INWARD_PATIENCE.onTheWay;
  const cancel = clock.after(longest, () => late.abort());
  try {
    const response = await client.request({
      method: 'POST',
      path: inwardProbesPath(node),
      body: question,
      signal: AbortSignal.any([signal, late.signal]),
      // Reports do not wait for it.
      isStream: true,
    });
    const answer = parseInwardAnswer(JSON.parse(await bodyText(response, MOST_PROBES_BODY)));
    if ('problem' in answer) throw new Error(`the controller's answer is not valid: ${answer.problem}`);
    return answer.results;
  } catch (error) {
    if (late.signal.aborted) throw new Error(`no answer in ${longest / 1000} s`);
    if (error instanceof ControllerError && error.status === NOT_FOUND)
      return question.probes.map(({ name }) => ({ name, notMade: EARLIER }));
    throw error;
  } finally {
    cancel();
  }
}
