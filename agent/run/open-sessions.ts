import type { Log } from '../../lib/process/log.ts';
import type { KeepOptions, KeptSessions } from '../connections/keep-sessions.ts';
import type { Dataplanes } from '../dataplane/dataplane.ts';
import { loadAddon } from './with-kernel.ts';

interface OpenSessionsOptions extends Pick<KeepOptions, 'track'> {
  readonly node: string;
  readonly log: Pick<Log, 'info' | 'warn'>;
  readonly dataplanes: Pick<Dataplanes, 'others'>;
}

const JUDGED = 'the rules judge their next packets as those of new connections';

/**
 * Keeps the sessions that are open before the first rules. A failure is logged, and holds the rules
 * up no longer.
 */
export async function keepOpenSessions({ node, log, dataplanes, track }: OpenSessionsOptions): Promise<void> {
  try {
    const held = await Promise.all(dataplanes.others.map((one) => one.holdsRules().catch(() => false)));
    // The rules of another dataplane track connections already, and have judged them.
    if (held.includes(true)) return;
    say(await keep(track), node, log);
  } catch (error) {
    const { message } = error as Error;
    log.warn(`cannot keep the sessions that are open: ${JUDGED}`, { node, error: message });
  }
}

async function keep(track: KeepOptions['track']): Promise<KeptSessions> {
  const [{ Conntrack, SocketTable }, { keepSessions }] = await Promise.all([
    loadAddon(),
    import('../connections/keep-sessions.ts'),
  ]);
  const conntrack = new Conntrack();
  try {
    return await keepSessions({ sockets: new SocketTable(), conntrack, track });
  } finally {
    await conntrack.close();
  }
}

function say({ kept, failed, error }: KeptSessions, node: string, log: OpenSessionsOptions['log']): void {
  log.info('sessions that were open before the first rules go on', { node, sessions: kept });
  if (error === null) return;
  const isFull = error.code === 'ENOMEM';
  const cause = isFull ? "the kernel's table of connections is full" : 'the kernel refuses to track them';
  const next = isFull ? '; raise net.netfilter.nf_conntrack_max' : '';
  log.warn(`${failed} open sessions may hang: ${cause}, so ${JUDGED}${next}`, {
    node,
    sessions: kept,
    failed,
    error: error.message,
  });
}
