/** Which program this is: the one of machines, or the plugin of kubectl without their commands. */
export interface Edition {
  /** As its users call it. */
  readonly name: 'nodewall' | 'kubectl nodewall';
  /** Whether commands about the machine on which they run are in it. */
  readonly hasMachine: boolean;
}

export const NODEWALL_EDITION: Edition = { name: 'nodewall', hasMachine: true };
/** For workstations, of any system: no addon, no agent, no controller. */
export const KUBECTL_PLUGIN: Edition = { name: 'kubectl nodewall', hasMachine: false };

/** Texts have this for a command of the program, but not of nodes. */
const COMMAND =
  /(^ *|[`'])nodewall (?!(?:agent|controller|off|on|flush|confirm|retry|cleanup|boot-unit)\b)(?=[a-z-])/gm;

/** Texts name commands as `nodewall …`; this names them as the users of the edition do. */
export function editionText(text: string, { name }: Edition): string {
  return name === NODEWALL_EDITION.name ? text : text.replace(COMMAND, `$1${name} `);
}
