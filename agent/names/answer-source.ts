import { Nflog, type NflogBatch } from 'nftables-napi';
import type { Clock } from '../../lib/process/clock.ts';
import { keepOpen } from '../../lib/process/keep-open.ts';
import type { NamesLog } from './name-reports.ts';

/** A source of copies of DNS answers. */
export interface AnswerSource {
  close(): Promise<void>;
}

export type AnswerListener = (batch: Pick<NflogBatch, 'packets' | 'lost'>) => void;
export type OpenAnswers = (listener: AnswerListener) => AnswerSource;

/** Bytes that nflog copies of a packet at most: nearly the largest UDP packet. */
const WHOLE_PACKET = 65_531;

export interface NflogAnswersOptions {
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
export function nflogAnswers({ group, clock, log, create }: NflogAnswersOptions): OpenAnswers {
  const openGroup = create ?? ((options, listener) => new Nflog(options, listener));
  return (listener) => {
    let isFailing = false;
    return keepOpen({
      clock,
      open(failed) {
        // Without batching: the application's first packet follows the answer at once.
        const options = { group, copyRange: WHOLE_PACKET, queueThreshold: 1 };
        const nflog = openGroup(options, (batch) => {
          if (batch.packets.length > 0 || batch.lost > 0) listener(batch);
          if (batch.error !== null) failed(batch.error);
        });
        if (isFailing) log.info('reading DNS answers again', { stage: 'names', group });
        isFailing = false;
        return nflog;
      },
      failed({ message: error }) {
        const message = 'cannot read DNS answers; fqdn peers with a wildcard learn no names, retrying';
        if (!isFailing) log.error(message, { stage: 'names', group, error });
        isFailing = true;
      },
    });
  };
}
