/** What fails to be drawn leaves the rest of the page standing. */

import { Component, type ComponentChildren } from "preact";
import { FailedHere } from "./states";

/** Says on the page what happened inside. */
export class Guard extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static override getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    return this.state.error ? (
      <FailedHere error={{ message: "This could not be drawn.", hint: this.state.error.message }} />
    ) : (
      this.props.children
    );
  }
}
