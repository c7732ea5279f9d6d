import { formatProblem } from '../../apis/validate/problem.ts';
import type { Log } from '../../lib/process/log.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { ServerEvent } from '../publish/streams.ts';
import type { WatchNotice } from '../watch/cluster/watch-failures.ts';
import type { Snapshot } from '../watch/source.ts';

const LEVELS = { error: 'warn', warning: 'info', notice: 'debug' } as const;
/** The most new problems that are logged one by one; for more, their number is logged. */
const MOST_PROBLEMS = 50;

/** The log of the stages: each event once, when it happens. */
export function controllerLog(log: Log) {
  let known: ReadonlySet<string> = new Set();
  let logged: Snapshot['problems'] = [];
  return {
    watch({ event, resource, ...notice }: WatchNotice): void {
      const fields = { stage: 'watch', resource, ...notice };
      switch (event) {
        case 'failed':
          return void log.warn('cannot list or watch a resource; trying again', fields);
        case 'recovered':
          return void log.info('a resource is watched again', fields);
        case 'listed':
          return void log.info('listed a resource', fields);
        case 'absent':
          return void log.info('the API server does not have a resource; looking for it regularly', fields);
        case 'corrected':
          return void log.warn('a relist found changes that watch events missed; corrected', fields);
      }
    },
    problems({ problems }: Snapshot): void {
      if (problems === logged) return;
      logged = problems;
      const now = new Map(problems.map((problem) => [formatProblem(problem), problem]));
      const fresh = [...now].filter(([line]) => !known.has(line));
      for (const [line, { severity, kind, name }] of fresh.slice(0, MOST_PROBLEMS)) {
        const object = kind === 'ClusterNetworkPolicy' ? { policy: name } : { kind, name };
        log.log(LEVELS[severity], line, { stage: 'watch', ...object });
      }
      const more = fresh.length - MOST_PROBLEMS;
      if (more > 0)
        log.warn('more problems than are logged; the statuses of the policies have them', {
          stage: 'watch',
          problems: more,
        });
      known = new Set(now.keys());
    },
    server(event: ServerEvent): void {
      const { kind, ...rest } = event;
      if (event.kind !== 'failed') return void log.debug(`stream ${kind}`, { stage: 'publish', ...rest });
      log.error('a request failed', { stage: 'publish', path: event.path, error: messageOf(event.error) });
    },
  };
}
