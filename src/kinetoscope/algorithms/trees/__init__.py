"""Call trees and longest paths."""
