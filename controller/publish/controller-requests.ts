import type { IncomingMessage } from 'node:http';
import type { ControllerItem, ControllerList, ControllerState } from '../../apis/controller-state.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { type Answer, allowed, refused } from './answer.ts';
import type { Identity } from './auth.ts';
import { denial, notFromPeer, type PeerOptions, type PermissionOptions } from './permission.ts';

/** The state of the controllers. */
export interface ControllerStates {
  own(): Promise<ControllerState>;
  /** The items of the others: one of each, whether it answers or not. */
  others(): Promise<readonly ControllerItem[]>;
}

export interface ControllerOptions extends PermissionOptions, PeerOptions {
  /** Absent: this controller says nothing of itself. */
  readonly controllers?: ControllerStates;
}

interface Asked {
  readonly request: IncomingMessage;
  readonly identity: Identity;
}

/** A user asks how the controllers are. */
export async function controllerList(
  { authorise, controllers }: ControllerOptions,
  { request, identity }: Asked,
): Promise<Answer> {
  const wrong = allowed(request, ['GET']);
  if (wrong !== null) return wrong;
  const { group, version } = CONTROL_PLANE;
  const access = { group, version, verb: 'list', resource: 'controllers' } as const;
  const what = 'list controllers (ClusterRole nodewall-view allows it)';
  const denied = await denial(authorise, identity, access, what);
  if (denied !== null) return denied;
  if (controllers === undefined) return none();
  const [own, others] = await Promise.all([controllers.own(), controllers.others()]);
  const body: ControllerList = {
    kind: 'ControllerList',
    apiVersion: `${group}/${version}`,
    metadata: {},
    items: [{ metadata: { name: own.name }, state: own }, ...others],
  };
  return { code: 200, body };
}

/** Another controller asks for this one's. */
export async function controllerState(options: ControllerOptions, request: IncomingMessage): Promise<Answer> {
  const wrong = allowed(request, ['GET']);
  if (wrong !== null) return wrong;
  const stranger = await notFromPeer(options, request);
  if (stranger !== null) return stranger;
  return options.controllers === undefined ? none() : { code: 200, body: await options.controllers.own() };
}

function none(): Answer {
  return refused('NotFound', 'this controller says nothing of itself');
}
