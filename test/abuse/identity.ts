import type { Identity } from '../../controller/publish/auth.ts';
import { AGENT_USER } from '../../controller/publish/server-limits.ts';

/** `agent.NODE` and `user.NAME` are tokens; of all others nobody is the owner. */
export function identityOf(authorization = ''): Identity | null {
  const [, kind, name = ''] = /^Bearer (agent|user)\.(\S+)$/.exec(authorization) ?? [];
  if (kind === undefined) return null;
  const extra = kind === 'agent' ? { 'authentication.kubernetes.io/node-name': [name] } : {};
  return { username: kind === 'agent' ? AGENT_USER : name, uid: '', groups: [], extra, expires: null };
}
