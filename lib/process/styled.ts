import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Colours only where the stream is a terminal (styleText looks at it, and at NO_COLOR). */
export function styled(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(style, text, { stream });
}
