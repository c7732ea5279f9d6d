import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { systemClock } from '../../lib/process/clock.ts';
import type { ExitStatus } from '../../lib/process/exit.ts';
import { Controller } from './controller.ts';
import type { ControllerContext } from './controller-context.ts';

/** Runs a controller until it is asked to stop and others can continue without it. */
export function runController(context: ControllerContext): Promise<ExitStatus> {
  const identity = `${hostname()}_${randomUUID()}`;
  return new Controller(context, { clock: systemClock, random: Math.random, identity }).run();
}
