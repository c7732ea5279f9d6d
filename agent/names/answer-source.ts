import { Nflog, type NflogBatch } from 'nftables-napi';
import type { Clock } from '../../lib/process/clock.ts';
import type { NamesLog } from './name-reports.ts';

/** A source of copies of DNS answers. */
export interface AnswerSource {
  close(): Promise<void>;
}

export type AnswerListener = (batch: Pick<NflogBatch, 'packets' | 'lost'>) => void;
export type OpenAnswers = (listener: AnswerListener) => AnswerSource;

/** Bytes that nflog copies of a packet at most: nearly the largest UDP packet. */
const WHOLE_PACKET = 65_531;
/** Milliseconds until the next attempt after a failure. */
const RETRY = 10_000;

export interface NflogParts {
  readonly group: number;
  readonly clock: Clock;
  readonly log: NamesLog;
  /** Default: the addon's Nflog; replaced in tests. */
  readonly create?: (
    options: ConstructorParameters<typeof Nflog>[0],
    listener: (batch: NflogBatch) => void,
  ) => Pick<Nflog, 'close'>;
}

/**
 * Opens an NFLOG group. If that fails, names are still resolved; the failure is logged once and
 * retried.
 */
export function nflogAnswers({ group, clock, log, create }: NflogParts): OpenAnswers {
  const open = create ?? ((options, listener) => new Nflog(options, listener));
  return (listener) => {
    /** Closes the group, or cancels the next attempt. */
    let stop = (): Promise<void> | void => {};
    let isFailing = false;
    let closed = false;

    function failed(error: unknown): void {
      if (!isFailing) {
        log.error('cannot read DNS answers; fqdn peers with a wildcard learn no names, retrying', {
          stage: 'names',
          group,
          error: (error as Error).message,
        });
      }
      isFailing = true;
      if (!closed) stop = clock.after(RETRY, start);
    }
    function start(): void {
      try {
        // Without batching: the application's first packet follows the answer at once.
        const nflog = open({ group, copyRange: WHOLE_PACKET, queueThreshold: 1 }, (batch) => {
          if (batch.packets.length > 0 || batch.lost > 0) listener(batch);
          if (batch.error === null) return;
          void stop();
          failed(batch.error);
        });
        stop = () => nflog.close();
        if (isFailing) log.info('reading DNS answers again', { stage: 'names', group });
        isFailing = false;
      } catch (error) {
        failed(error);
      }
    }
    start();
    return {
      async close() {
        closed = true;
        await stop();
      },
    };
  };
}
