import type { NamesConfig } from '../../apis/config.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { nflogAnswers } from '../names/answer-source.ts';
import { lookup } from '../names/lookup.ts';
import { type WatchedNames, watchNames } from '../names/names.ts';
import { NAMES_FILE } from '../names/saved-names.ts';

interface FqdnResolverOptions {
  readonly config: NamesConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly stateDir: string;
  readonly once: boolean;
  readonly reserved: () => readonly string[];
}

/**
 * The FQDN cache with its real dependencies: DNS, nflog, the state directory. Loaded only when a
 * rule needs it.
 */
export function namesOnNode(
  { config, clock, log, stateDir, once, reserved }: FqdnResolverOptions,
  changed: () => void,
): Promise<WatchedNames> {
  return watchNames({
    config,
    clock,
    log,
    changed,
    reserved,
    wallClock: Date.now,
    random: Math.random,
    file: stateFile(stateDir, NAMES_FILE),
    lookup: lookup(config.servers, clock),
    answers: config.learn && !once ? nflogAnswers({ group: config.group, clock, log }) : null,
  });
}
