import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Styles the text only if the stream is a terminal (styleText checks it, and NO_COLOR). */
export function styled(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(style, text, { stream });
}
