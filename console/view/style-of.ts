import { noChange } from 'lit';
import { Directive, directive, type ElementPart } from 'lit/directive.js';

/** Properties of an element's style by their names in JavaScript; '' removes one. */
type Styles = Readonly<Partial<Record<'height' | 'width' | 'transform', string>>>;

class StyleOf extends Directive {
  override render(_styles: Styles): unknown {
    return noChange;
  }

  override update({ element }: ElementPart, [styles]: [Styles]): unknown {
    Object.assign((element as HTMLElement).style, styles);
    return noChange;
  }
}

/**
 * Sets an element's style: `<div ${styleOf({ height: '3px' })}>`. The Content-Security-Policy
 * forbids the attribute, which Lit's styleMap writes.
 */
export const styleOf = directive(StyleOf);
