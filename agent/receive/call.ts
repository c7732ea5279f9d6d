import { type AgentCall, pathOf } from '../../apis/calls.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { ControllerClient } from './controller-client.ts';
import { bodyText } from './https-call.ts';

export interface Caller {
  readonly node: string;
  readonly client: ControllerClient;
  readonly clock: Clock;
}

interface CallOptions {
  /** Aborts the call in any phase; absent: nothing does but its patience. */
  readonly signal?: AbortSignal;
  /** On a connection of its own: reports do not wait for it. */
  readonly isStream?: boolean;
  /** Milliseconds; absent: the call's. */
  readonly patience?: number | null;
}

/**
 * Makes a call about this node. Throws ControllerError, and an Error if there is no valid answer in
 * time.
 */
export async function callController<Request extends object, Answer>(
  { node, client, clock }: Caller,
  call: AgentCall<Request, Answer>,
  body: Request,
  { signal, isStream = false, patience = call.patience }: CallOptions = {},
): Promise<Answer> {
  const late = new AbortController();
  const cancel = patience === null ? () => {} : clock.after(patience, () => late.abort());
  const signals = signal === undefined ? [late.signal] : [signal, late.signal];
  try {
    const response = await client.request({
      method: call.method,
      path: pathOf(call, node),
      body,
      signal: AbortSignal.any(signals),
      isStream,
    });
    if (call.mostAnswer > 0) return answerOf(call, await bodyText(response, call.mostAnswer), body);
    response.resume();
    return call.parseAnswer(undefined, body);
  } catch (error) {
    if (late.signal.aborted) throw new Error(`no answer in ${Number(patience) / 1000} s`, { cause: error });
    throw error;
  } finally {
    cancel();
  }
}

function answerOf<Request, Answer>(call: AgentCall<Request, Answer>, text: string, body: Request): Answer {
  try {
    return call.parseAnswer(JSON.parse(text), body);
  } catch (error) {
    throw new Error(`the controller's answer is not valid: ${(error as Error).message}`, { cause: error });
  }
}
