import { EgressCompiling } from '../egress/egress-compiling.ts';
import { EgressLead } from '../egress/status/egress-lead.ts';
import type { ControllerExtension } from './extension.ts';

/** Fills the ports of stage 2 and of the leader, which hears of each state that is published. */
export function controllerExtension(
  options: Omit<ConstructorParameters<typeof EgressCompiling>[0], 'published'>,
): ControllerExtension {
  let leader: EgressLead | null = null;
  const compiling = new EgressCompiling({ ...options, published: (state) => leader?.publish(state) });
  return {
    compile: (objects) => compiling.compile(objects),
    restart: () => compiling.restart(),
    leader(its) {
      leader = new EgressLead(its);
      return leader;
    },
  };
}
