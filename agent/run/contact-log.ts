import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';

/** That the controller is still away is said again after so long (milliseconds). */
const AGAIN = 300_000;

/** No view that cannot be followed was spoken of. */
const FOLLOWED = { reason: '', said: 0 };

interface ContactOptions {
  readonly node: string;
  readonly controller: string;
  readonly log: Log;
  readonly clock: WallClock;
}

/** What the log says of the controller: when it goes and comes, not each try. */
export function contactLog({ node, controller, log, clock }: ContactOptions) {
  const fields = { node, stage: 'receive', controller };
  let away: { readonly since: Date; reason: string; said: number } | null = null;
  let unfollowed = FOLLOWED;
  let isFollowed = false;
  let unreported = '';
  return {
    awaySince: (): string | null => away?.since.toISOString() ?? null,
    connected(): void {
      log.debug('connected', fields);
    },
    /** The view is complete: only now the controller is back. */
    bookmark(revision: string): void {
      if (away !== null) {
        const seconds = Math.round((clock.date().getTime() - away.since.getTime()) / 1000);
        log.info('the controller is back', { ...fields, revision, seconds });
      } else if (!isFollowed) log.info('following the controller', { ...fields, revision });
      if (unfollowed !== FOLLOWED)
        log.info("the controller's view is followed again", { ...fields, revision });
      away = null;
      unfollowed = FOLLOWED;
      isFollowed = true;
    },
    /** What came doesn't fit; it is asked for again. */
    refolding(error: Error): void {
      log.warn('what the controller sent does not fit; asking for it again', {
        ...fields,
        error: error.message,
      });
    },
    /** It answers; not even its whole view can be folded. */
    unfollowable(error: Error, retryIn: number): void {
      const now = clock.now();
      const isNews = error.message !== unfollowed.reason || now - unfollowed.said >= AGAIN;
      if (isNews) unfollowed = { reason: error.message, said: now };
      log.log(
        isNews ? 'error' : 'debug',
        "the controller's view cannot be followed; what was enforced before stays. Restart the controller, then this agent; have both of one version; report it",
        { ...fields, error: error.message, retryIn: Math.round(retryIn) },
      );
    },
    disconnected(error: Error, retryIn: number): void {
      const now = clock.now();
      const isNews = away === null || away.reason !== error.message || now - away.said >= AGAIN;
      away ??= { since: clock.date(), reason: '', said: now };
      const what = {
        ...fields,
        error: error.message,
        since: away.since.toISOString(),
        retryIn: Math.round(retryIn),
      };
      if (!isNews) return void log.debug('the controller is still away', what);
      Object.assign(away, { reason: error.message, said: now });
      log.warn('the controller is away; what was enforced stays enforced', what);
    },
    reported(error: Error | null): void {
      const reason = error?.message ?? '';
      // Without a connection that is no news.
      const level = away === null && reason !== unreported ? 'warn' : 'debug';
      if (error !== null)
        log.log(level, 'the controller did not take the report of this node; trying again', {
          ...fields,
          error: reason,
        });
      else if (unreported !== '') log.info('the controller takes reports again', fields);
      unreported = away === null ? reason : unreported;
    },
  };
}
