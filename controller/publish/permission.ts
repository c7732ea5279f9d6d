import type { IncomingMessage } from 'node:http';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { type Answer, refused, unavailable } from './answer.ts';
import { type Access, type Authenticate, type Authorise, boundNode, type Identity } from './auth.ts';
import { callerOf } from './caller-limits.ts';

export interface PermissionOptions {
  readonly authorise: Authorise;
  /** The user name of agents. */
  readonly agents: string;
}

export interface PeerOptions {
  /** Null if the request is not from another controller. */
  readonly authenticatePeer: Authenticate;
  /** Called with each authenticated request. */
  readonly authenticated: (request: IncomingMessage, caller: string) => void;
}

/**
 * Null if the access is allowed. An agent has the necessary access to its own node's view, and no
 * other.
 */
export async function forbidden(
  { agents, authorise }: PermissionOptions,
  identity: Identity,
  access: Pick<Access, 'verb' | 'subresource' | 'name'>,
): Promise<Answer | null> {
  const { verb, subresource, name } = access;
  const what = `${verb} nodeviews${subresource === undefined ? '' : `/${subresource}`}${name === undefined ? '' : ` ${name}`}`;
  if (identity.username === agents) {
    const own = boundNode(identity);
    if (own === null) return refused('Forbidden', 'the token is not bound to a node');
    if (name === own) return null;
    return refused('Forbidden', `an agent on ${own} may not ${what}`);
  }
  const { group, version } = CONTROL_PLANE;
  return denial(authorise, identity, { ...access, group, version, resource: 'nodeviews' }, what);
}

/**
 * Null if the request is from another controller, which then counts as authenticated.
 */
export async function notFromPeer(
  { authenticatePeer, authenticated }: PeerOptions,
  request: IncomingMessage,
): Promise<Answer | null> {
  const identity = await authenticatePeer(request).catch((error: unknown) => error as Error);
  if (identity instanceof Error)
    return unavailable(`cannot authenticate the request now: ${identity.message}`);
  if (identity === null) return refused('Unauthorized', "a controller's bearer token is required");
  authenticated(request, callerOf(identity));
  return null;
}

/** Null if the API server allows it. */
export async function denial(
  authorise: Authorise,
  identity: Identity,
  access: Parameters<Authorise>[1],
  what: string,
): Promise<Answer | null> {
  let permission: Awaited<ReturnType<Authorise>>;
  try {
    permission = await authorise(identity, access);
  } catch (error) {
    return unavailable(`cannot authorise the request now: ${(error as Error).message}`);
  }
  if (permission.allowed) return null;
  const why = permission.reason === '' ? '' : `: ${permission.reason}`;
  return refused('Forbidden', `${JSON.stringify(identity.username)} may not ${what}${why}`);
}
