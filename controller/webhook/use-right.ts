import type { Authorise } from '../publish/auth.ts';
import type { Rejection, UseQuestion } from './review.ts';

export interface UseRightOptions {
  readonly authorise: Authorise;
  /** Milliseconds; the webhook configurations allow 5 s in all. */
  readonly timeout?: number;
}

/** Null: the user has the right. `source`: the address that sent the question. */
export type MayUse = (question: UseQuestion, source: string) => Promise<Rejection | null>;

const TIMEOUT = 2_500;

/** Reviews at once, and waiting ones: the answer is useless after the timeout. */
export const USE_QUEUE = { atOnce: 4, most: 64 } as const;

/** Milliseconds: who was refused is granted the right, and tries again. */
export const KEEP_REFUSED_USE = 1_000;

/**
 * Asks the API server whether the user has the verb `use` on the gateway: in all namespaces, or in
 * that of the policy, as a RoleBinding there gives it. What can't be checked is refused.
 */
export function useRight({ authorise, timeout = TIMEOUT }: UseRightOptions): MayUse {
  return async ({ user, gateway, namespace, subject }, source) => {
    const access = {
      ...({ verb: 'use', group: 'nodewall.io', version: 'v1alpha1' } as const),
      resource: 'egressgateways',
      name: gateway,
      ...(namespace === '' ? {} : { namespace }),
    };
    const right = `the right to use EgressGateway ${gateway} (RBAC verb use on egressgateways.nodewall.io)`;
    try {
      const late = AbortSignal.timeout(timeout);
      const { promise: over, reject } = Promise.withResolvers<never>();
      late.addEventListener('abort', () => reject(new Error('no answer in time')));
      const { allowed } = await Promise.race([authorise({ ...user, expires: null }, access, source), over]);
      if (allowed) return null;
      const message = `${subject}: user ${user.username} lacks ${right}`;
      return { reason: 'Forbidden', message, isTransient: false };
    } catch (error) {
      const why = (error as Error).message;
      const message = `${subject}: it can't be checked whether user ${user.username} has ${right}: ${why}; try again`;
      return { reason: 'ServiceUnavailable', message, isTransient: false };
    }
  };
}
