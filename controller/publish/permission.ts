import { CONTROL_PLANE } from '../../apis/stream.ts';
import { type Answer, refused, unavailable } from './answer.ts';
import { type Access, type Authorise, boundNode, type Identity, type PathAccess } from './auth.ts';

export interface PermissionOptions {
  readonly authorise: Authorise;
  /** The user name of agents. */
  readonly agents: string;
}

/** The right to a resource of the control plane's API group, or to a path. */
export type Right = Pick<Access, 'verb' | 'resource' | 'subresource' | 'name'> | PathAccess;

/**
 * Null if the access is allowed. An agent has the necessary access to its own node's view, and no
 * other; of all others the API server decides.
 */
export async function denial(
  { agents, authorise }: PermissionOptions,
  identity: Identity,
  right: Right,
): Promise<Answer | null> {
  const what = rightText(right);
  if ('resource' in right && right.resource === 'nodeviews' && identity.username === agents) {
    const own = boundNode(identity);
    if (own === null) return refused('Forbidden', 'the token is not bound to a node');
    if (right.name === own) return null;
    return refused('Forbidden', `an agent on ${own} may not ${what}`);
  }
  const { group, version } = CONTROL_PLANE;
  let permission: Awaited<ReturnType<Authorise>>;
  try {
    permission = await authorise(identity, 'path' in right ? right : { ...right, group, version });
  } catch (error) {
    return unavailable(`cannot authorise the request now: ${(error as Error).message}`);
  }
  if (permission.allowed) return null;
  const why = permission.reason === '' ? '' : `: ${permission.reason}`;
  return refused('Forbidden', `${JSON.stringify(identity.username)} may not ${what}${why}`);
}

function rightText(right: Right): string {
  if ('path' in right) return `${right.verb} ${right.path}`;
  const { verb, resource, subresource, name } = right;
  const path = subresource === undefined ? resource : `${resource}/${subresource}`;
  if (resource === 'nodeviews') return `${verb} ${path}${name === undefined ? '' : ` ${name}`}`;
  const named = name === undefined ? '' : ` ${JSON.stringify(name)}`;
  return `${verb} ${path}${named} (ClusterRole nodewall-view allows it)`;
}
